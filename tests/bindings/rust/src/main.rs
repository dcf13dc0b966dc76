//! Prints results that tests/bindings/test_bindings.py compares with Python's; see `expected` there.
use asr_stream::*;

fn words(words: &[Word]) -> String {
    let word = |w: &Word| {
        format!("{}:{:x}:{:x}:{:x}", w.word, w.start.to_bits(), w.end.to_bits(), w.confidence.to_bits())
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn print(clip: usize, stream: &mut Stream) {
    for e in stream.events() {
        let kind = e.kind;
        let (start, end) = (e.start.to_bits(), e.end.to_bits());
        let (shown, raw) = (words(&e.words), words(&e.raw_words));
        let other = |o: &Alternative| format!("{}:{:x}:{}", o.text, o.confidence.to_bits(), words(&o.words));
        let others = e.alternatives.iter().map(other).collect::<Vec<_>>().join("|");
        println!(
            "{clip}\t{kind}\t{}\t{start:x}\t{end:x}\t{shown}\t{}\t{}\t{}\t{raw}\t{others}\t{}",
            e.text, e.num_stable, e.endpoint, e.raw, e.num_taken_back
        );
    }
}

fn report<T>(result: Result<T, Error>) {
    let error = result.err().unwrap();
    println!("error\t{}\t{}", error.status, error);
}

fn run(clip: usize, model: &Model, samples: &[i16]) -> Result<(), Error> {
    let mut settings = Settings::default();
    if clip % 2 == 1 {
        settings = settings.set("chunk_ms", 320);
    }
    match clip {
        4 => {
            settings = settings.list("hotwords", ["theodolite", "R2", "lorry"]).list("replace", ["children -> kids"]);
            settings = settings.list("own_commands", ["old man walked slowly down the road -> scratch that"]);
        }
        5 => settings = settings.list("phrases", ["old", "man", "road"]),
        6 => {
            settings = settings.set("use_lm", false).set("search", "beam");
            settings = settings.set("silence_without_speech_s", f64::INFINITY);
        }
        9 => settings = settings.set("max_alternatives", 3),
        _ => (),
    }
    let mut stream = model.stream(if clip == 3 { 8000 } else { 16000 }, &settings)?;
    stream.warnings().iter().for_each(|warning| println!("warning\t{warning}"));
    for (index, piece) in samples.chunks(1600).enumerate() {
        match (clip, index) {
            (1, 20) => stream.gap(4001)?,
            (2, 20) => stream.end_utterance()?,
            (8, 20) => {
                stream.change(&Settings::default().list("mask", ["the", "man"]).set("text", "plain"))?
            }
            _ => (),
        }
        if clip == 7 {
            stream.accept_f32(&piece.iter().map(|&s| s as f32 / 32768.0).collect::<Vec<_>>())?;
        } else {
            stream.accept(piece)?;
        }
        print(clip, &mut stream);
    }
    stream.finish()?;
    print(clip, &mut stream);
    println!("{clip}\t{}", stream.sample_offset());
    if clip == 0 {
        report(stream.accept(samples));
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let files = Settings::default().set("lm", &args[2]).set("punctuation", &args[3]).set("neural_lm", &args[4]);
    let model = Model::from_bytes(&std::fs::read(&args[1]).unwrap(), &files)?;
    for (name, value) in model.properties().iter().filter(|(name, _)| name != "config" && name != "training") {
        println!("{name}\t{}", value.replace('\n', " "));
    }
    report(Model::open("/nowhere.onnx", &Settings::default()));
    report(model.stream(16000, &Settings::default().set("beam_sise", 5)));
    report(model.stream(16000, &Settings::default().set("beam_size", 0)));
    report(model.stream(16000, &Settings::default().set("text", "")));
    report(model.stream(16000, &Settings::default().set("phrases", "")));
    report(model.stream(16000, &Settings::default().list("mask", ["a\0b"])));
    report(model.stream(999, &Settings::default()));
    for (clip, path) in args[5..].iter().enumerate() {
        let bytes = std::fs::read(path).unwrap();
        let samples: Vec<i16> = bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
        run(clip, &model, &samples)?;
    }
    Ok(())
}
