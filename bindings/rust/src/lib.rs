#![doc = include_str!("../README.md")]

mod sys;

use serde::Deserialize;
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::path::Path;
use std::{fmt, ptr};

const ERROR: usize = 1024; // maximum bytes of a message

/// The kinds of an `Error`, as in asr_stream.h.
pub const INVALID_ARGUMENT: u32 = 1;
pub const FILE_UNREADABLE: u32 = 2;
pub const FILE_DAMAGED: u32 = 3;
pub const RUNTIME_UNAVAILABLE: u32 = 4;
pub const OUT_OF_MEMORY: u32 = 5;
pub const BUSY: u32 = 6;
pub const FINISHED: u32 = 7;
pub const FAILED: u32 = 8;

/// The reason why a call failed. `status` is one of the constants above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub status: u32,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// How to open a model, and how a stream recognizes: settings by name.
#[derive(Debug, Clone, Default)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// `set("chunk_ms", 320)`, `set("second_pass", false)`, `set("lm", "english.lm")`
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.0.push((name.to_string(), value.to_string()));
        self
    }

    /// `list("hotwords", ["Abbey Road", "Leighton:2"])`
    pub fn list<T: AsRef<str>>(self, name: &str, lines: impl IntoIterator<Item = T>) -> Self {
        let lines: Vec<String> = lines.into_iter().map(|line| line.as_ref().to_string()).collect();
        self.set(name, lines.join("\n"))
    }

    fn open(&self) -> Result<Handle, Error> {
        let handle = Handle(unsafe { sys::asr_settings_new() });
        for (name, value) in &self.0 {
            let (name, value) = (c_string(name)?, c_string(value)?);
            with_error(|e| unsafe { sys::asr_settings_set(handle.0, name.as_ptr(), value.as_ptr(), e, ERROR) })?;
        }
        Ok(handle)
    }
}

struct Handle(*mut sys::Settings);

impl Drop for Handle {
    fn drop(&mut self) {
        unsafe { sys::asr_settings_free(self.0) }
    }
}

/// An open model file. Threads and streams share it.
pub struct Model(*mut sys::Model);

unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    pub fn open(path: impl AsRef<Path>, settings: &Settings) -> Result<Model, Error> {
        let path = path.as_ref();
        let path = c_string(path.to_str().ok_or_else(|| invalid(format!("{path:?} is not UTF-8")))?)?;
        Model::load(settings, |s, model, e| unsafe { sys::asr_model_load(path.as_ptr(), s, model, e, ERROR) })
    }

    pub fn from_bytes(bytes: &[u8], settings: &Settings) -> Result<Model, Error> {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        Model::load(settings, |s, model, e| unsafe { sys::asr_model_load_memory(data, size, s, model, e, ERROR) })
    }

    fn load<F>(settings: &Settings, call: F) -> Result<Model, Error>
    where
        F: FnOnce(*const sys::Settings, *mut *mut sys::Model, *mut c_char) -> sys::Status,
    {
        let (settings, mut model) = (settings.open()?, ptr::null_mut());
        with_error(|error| call(settings.0, &mut model, error))?;
        Ok(Model(model))
    }

    /// All properties of the model, such as ("language", "en"), by name.
    pub fn properties(&self) -> Vec<(String, String)> {
        let name = |index| unsafe { sys::asr_model_property_name(self.0, index) };
        let names = (0..).map(name).take_while(|name| !name.is_null());
        names.map(|name| (string(name), string(unsafe { sys::asr_model_property(self.0, name) }))).collect()
    }

    /// A new stream of mono audio at this sample rate in Hz. It may outlive the model.
    pub fn stream(&self, sample_rate: i32, settings: &Settings) -> Result<Stream, Error> {
        let (s, mut stream) = (settings.open()?, ptr::null_mut());
        with_error(|e| unsafe { sys::asr_stream_new(self.0, sample_rate, s.0, &mut stream, e, ERROR) })?;
        Ok(Stream(stream))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { sys::asr_model_free(self.0) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    Partial,
    Final,
    Gap,
    Error,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(["partial", "final", "gap", "error"][*self as usize])
    }
}

/// A word with its times in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Word {
    pub word: String,
    pub start: f64,
    pub end: f64,
    pub confidence: f32,
}

/// Another hypothesis for the utterance of a final.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Alternative {
    pub text: String,
    pub confidence: f32,
    pub words: Vec<Word>,
}

/// Times are in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: EventKind,
    pub text: String,
    pub start: f64,
    pub end: f64,
    pub words: Vec<Word>,
    #[serde(default)]
    pub raw: String,
    #[serde(default)]
    pub raw_words: Vec<Word>,
    /// Partials only: leading words that later partials keep; the final changes 5 to 9 %.
    #[serde(default)]
    pub num_stable: usize,
    /// Finals only: the rule that ended it; otherwise "".
    #[serde(default)]
    pub endpoint: String,
    /// With the option max_alternatives.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// Finals only: how many earlier finals are taken back ("scratch that").
    #[serde(default)]
    pub num_taken_back: usize,
}

/// One source of audio. Calls do their work in the calling thread.
pub struct Stream(*mut sys::Stream);

unsafe impl Send for Stream {}

impl Stream {
    pub fn accept(&mut self, samples: &[i16]) -> Result<(), Error> {
        self.check(unsafe { sys::asr_stream_accept_i16(self.0, samples.as_ptr(), samples.len()) })
    }

    /// Samples in [-1, 1].
    pub fn accept_f32(&mut self, samples: &[f32]) -> Result<(), Error> {
        self.check(unsafe { sys::asr_stream_accept_f32(self.0, samples.as_ptr(), samples.len()) })
    }

    /// Reports that this many samples of audio were lost here, which ends the utterance.
    pub fn gap(&mut self, num_samples: i64) -> Result<(), Error> {
        self.check(unsafe { sys::asr_stream_gap(self.0, num_samples) })
    }

    /// Ends the utterance here; its final follows.
    pub fn end_utterance(&mut self) -> Result<(), Error> {
        self.check(unsafe { sys::asr_stream_end_utterance(self.0) })
    }

    /// Ends the utterance; later audio is recognized with other settings.
    pub fn change(&mut self, settings: &Settings) -> Result<(), Error> {
        let settings = settings.open()?;
        self.check(unsafe { sys::asr_stream_change(self.0, settings.0) })
    }

    /// Ends the audio; the last events follow.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.check(unsafe { sys::asr_stream_finish(self.0) })
    }

    /// Position of the next sample, in 16 kHz samples including gaps.
    pub fn sample_offset(&self) -> i64 {
        unsafe { sys::asr_stream_sample_offset(self.0) }
    }

    /// Sentences about a missing language model and skipped lines of the present settings.
    pub fn warnings(&self) -> Vec<String> {
        let text = |index| unsafe { sys::asr_stream_warning(self.0, index) };
        (0..).map(text).take_while(|text| !text.is_null()).map(string).collect()
    }

    /// Returns the new events, oldest first.
    pub fn events(&mut self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(move || {
            let json = unsafe { sys::asr_stream_next_json(self.0) };
            let event = (!json.is_null()).then(|| serde_json::from_str(&string(json)));
            event.map(|event| event.expect("libasr_stream is of another version"))
        })
    }

    fn check(&self, status: u32) -> Result<(), Error> {
        let text = || string(unsafe { sys::asr_stream_error(self.0) });
        if status == 0 { Ok(()) } else { Err(Error { status, text: text() }) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        unsafe { sys::asr_stream_free(self.0) }
    }
}

fn invalid(text: String) -> Error {
    Error { status: INVALID_ARGUMENT, text }
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| invalid(format!("{text:?} has a NUL, where C ends a text")))
}

fn string(text: *const c_char) -> String {
    let text = if text.is_null() { Default::default() } else { unsafe { CStr::from_ptr(text) } };
    text.to_string_lossy().into_owned()
}

fn with_error(call: impl FnOnce(*mut c_char) -> sys::Status) -> Result<(), Error> {
    let mut text = [0; ERROR];
    let status = call(text.as_mut_ptr());
    if status == 0 { Ok(()) } else { Err(Error { status, text: string(text.as_ptr()) }) }
}
