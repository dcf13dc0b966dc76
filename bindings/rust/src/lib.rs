#![doc = include_str!("../README.md")]

#[allow(dead_code, non_camel_case_types)]
mod sys;

use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::path::{Path, PathBuf};
use std::{fmt, mem, ptr};
pub use sys::{ASR_BUSY, ASR_FAILED, ASR_FILE_DAMAGED, ASR_FILE_UNREADABLE, ASR_FINISHED, ASR_INVALID_ARGUMENT};
pub use sys::{ASR_NOT_INITIALIZED, ASR_OUT_OF_MEMORY, ASR_RUNTIME_UNAVAILABLE};

const ERROR: usize = 1024; // maximum bytes of a message

/// The reason why a call failed. `status` is one of the ASR_ constants.
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

/// How to open a model. `None` stands for the default of the C API.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    pub onnxruntime: Option<PathBuf>,
    pub lm: Option<PathBuf>,
    pub punctuation: Option<PathBuf>,
    pub neural_lm: Option<PathBuf>,
    pub num_threads: Option<i32>,
}

/// The settings of a stream: options by name, and lists of words and phrases.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub options: Vec<(String, String)>,
    pub hotwords: Option<Vec<String>>,
    pub phrases: Option<Vec<String>>,
    pub mask: Option<Vec<String>>,
    pub replace: Option<Vec<String>>,
    pub command_list: Option<Vec<String>>,
    pub without_lm: bool,
}

impl Settings {
    /// Adds an option: `set("chunk_ms", 320)`, `set("second_pass", false)`.
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.options.push((name.to_string(), value.to_string()));
        self
    }
}

/// An open model file. Threads and streams share it.
pub struct Model(*mut sys::asr_model);
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    pub fn open(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Model, Error> {
        let path = path_text(path.as_ref())?;
        Model::load(options, |o, model, e| unsafe { sys::asr_model_load(path.as_ptr(), o, model, e, ERROR) })
    }

    pub fn from_bytes(bytes: &[u8], options: &ModelOptions) -> Result<Model, Error> {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        Model::load(options, |o, model, e| unsafe { sys::asr_model_load_memory(data, size, o, model, e, ERROR) })
    }

    fn load<F>(given: &ModelOptions, call: F) -> Result<Model, Error>
    where
        F: FnOnce(*const sys::asr_model_options, *mut *mut sys::asr_model, *mut c_char) -> sys::asr_status,
    {
        check_layout()?;
        let mut o: sys::asr_model_options = unsafe { mem::zeroed() };
        unsafe { sys::asr_model_options_init(&mut o, mem::size_of_val(&o)) };
        o.num_threads = given.num_threads.unwrap_or(o.num_threads);
        let members = [&mut o.onnxruntime_path, &mut o.lm_path, &mut o.punctuation_path, &mut o.neural_lm_path];
        let paths = [&given.onnxruntime, &given.lm, &given.punctuation, &given.neural_lm];
        let _texts = point_at(members, paths.map(|path| path.as_deref().map(path_text)))?;
        let mut model = ptr::null_mut();
        with_error(|error| call(&o, &mut model, error))?;
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
        let mut stream = ptr::null_mut();
        with_settings(settings, |options, assets| {
            with_error(|e| unsafe { sys::asr_stream_new(self.0, sample_rate, options, assets, &mut stream, e, ERROR) })
        })??;
        Ok(Stream(stream))
    }
}

impl Drop for Model {
    fn drop(&mut self) { unsafe { sys::asr_model_free(self.0) } }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    pub text: String,
    pub start_s: f64,
    pub end_s: f64,
    pub confidence: f32,
}

/// Another hypothesis for the utterance of a final.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    pub text: String,
    pub confidence: f32,
    pub words: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub kind: EventKind,
    pub text: String,
    pub start_s: f64,
    pub end_s: f64,
    pub words: Vec<Word>,
    pub num_stable: usize, // partials only: leading words that later partials keep; the final changes 5 to 9 %
    pub endpoint: String,  // finals only: the rule that ended it; otherwise ""
    pub raw: String,
    pub raw_words: Vec<Word>,
    pub alternatives: Vec<Alternative>, // with the option max_alternatives
    pub num_taken_back: usize, // finals only: how many earlier finals are taken back ("scratch that")
}

/// One source of audio. Calls do their work in the calling thread.
pub struct Stream(*mut sys::asr_stream);
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
        self.check(with_settings(settings, |o, a| unsafe { sys::asr_stream_change(self.0, o, a) })?)
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
        std::iter::from_fn(move || unsafe { sys::asr_stream_next_event(self.0).as_ref() }.map(convert::event))
    }

    fn check(&self, status: u32) -> Result<(), Error> {
        let text = || string(unsafe { sys::asr_stream_error(self.0) });
        if status == sys::ASR_OK { Ok(()) } else { Err(Error { status, text: text() }) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) { unsafe { sys::asr_stream_free(self.0) } }
}

mod convert;
use convert::{check_layout, path_text, point_at, string, with_error, with_settings};
