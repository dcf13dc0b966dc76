//! Captions of a WAV file, or live of raw 16-bit samples at 16 kHz from standard input:
//!
//!     transcribe MODEL.onnx FILE.wav|- [LANGUAGE_MODEL.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]]
use asr_stream::{EventKind, Model, Settings, Stream};
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

/// Writes partials to standard error, each over the previous one, and finals with their times to standard output.
fn print_events(stream: &mut Stream) -> std::io::Result<()> {
    for event in stream.events() {
        eprint!("\r\x1b[K");
        if event.kind == EventKind::Partial {
            eprint!("{}", event.text);
        } else {
            println!("{:8.2} {:8.2}  {}", event.start, event.end, event.text);
            std::io::stdout().flush()?;
        }
    }
    Ok(())
}

/// The samples of a WAV file of 16-bit PCM, one channel, 16 kHz.
fn wav_samples(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WAVE")?;
    let mut known = false;
    loop {
        let size = u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?) as usize;
        let chunk = rest.get(8..8 + size)?;
        match &rest[..4] {
            b"fmt " => known = chunk.starts_with(&[1, 0, 1, 0, 0x80, 0x3e, 0, 0]) && chunk.get(14) == Some(&16),
            b"data" => return if known { Some(chunk) } else { None },
            _ => (),
        }
        rest = rest.get(8 + size + size % 2..)?;
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() < 3 {
        return Err("usage: transcribe MODEL.onnx FILE.wav|- [LM.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]]".into());
    }
    let files = ["lm", "punctuation", "neural_lm"].iter().zip(&arguments[3..]);
    let settings = files.fold(Settings::default(), |settings, (name, path)| settings.set(name, path));
    let mut stream = Model::open(&arguments[1], &settings)?.stream(16000, &Settings::default())?;
    let file = if arguments[2] == "-" { Vec::new() } else { std::fs::read(&arguments[2])? };
    let mut source: Box<dyn Read> = match arguments[2].as_str() {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(wav_samples(&file).ok_or("this is not a WAV file of 16-bit PCM with one channel at 16 kHz")?),
    };
    loop {
        let mut bytes = Vec::new();
        source.by_ref().take(3200).read_to_end(&mut bytes)?; // 0.1 s
        if bytes.is_empty() {
            break;
        }
        let samples: Vec<i16> = bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
        stream.accept(&samples)?;
        print_events(&mut stream)?;
    }
    stream.finish()?;
    Ok(print_events(&mut stream)?)
}

fn main() -> ExitCode {
    if let Err(error) = run() {
        eprintln!("transcribe: {error}"); // otherwise the standard library prints the debug form
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
