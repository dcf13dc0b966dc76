//! The functions of asr_stream.h that this crate calls.
use std::os::raw::{c_char, c_void};

pub type Status = u32;

#[repr(C)]
pub struct Settings([u8; 0]);
#[repr(C)]
pub struct Model([u8; 0]);
#[repr(C)]
pub struct Stream([u8; 0]);

extern "C" {
    pub fn asr_settings_new() -> *mut Settings;
    pub fn asr_settings_free(settings: *mut Settings);
    pub fn asr_settings_set(s: *mut Settings, name: *const c_char, value: *const c_char, e: *mut c_char, n: usize) -> Status;
    pub fn asr_model_load(p: *const c_char, s: *const Settings, m: *mut *mut Model, e: *mut c_char, n: usize) -> Status;
    pub fn asr_model_load_memory(
        data: *const c_void, size: usize, s: *const Settings, m: *mut *mut Model, e: *mut c_char, n: usize,
    ) -> Status;
    pub fn asr_model_free(model: *mut Model);
    pub fn asr_model_property(model: *const Model, name: *const c_char) -> *const c_char;
    pub fn asr_model_property_name(model: *const Model, index: usize) -> *const c_char;
    pub fn asr_stream_new(
        m: *const Model, sample_rate: i32, s: *const Settings, stream: *mut *mut Stream, e: *mut c_char, n: usize,
    ) -> Status;
    pub fn asr_stream_free(stream: *mut Stream);
    pub fn asr_stream_accept_f32(stream: *mut Stream, samples: *const f32, count: usize) -> Status;
    pub fn asr_stream_accept_i16(stream: *mut Stream, samples: *const i16, count: usize) -> Status;
    pub fn asr_stream_gap(stream: *mut Stream, num_samples: i64) -> Status;
    pub fn asr_stream_end_utterance(stream: *mut Stream) -> Status;
    pub fn asr_stream_change(stream: *mut Stream, settings: *const Settings) -> Status;
    pub fn asr_stream_finish(stream: *mut Stream) -> Status;
    pub fn asr_stream_sample_offset(stream: *mut Stream) -> i64;
    pub fn asr_stream_warning(stream: *const Stream, index: usize) -> *const c_char;
    pub fn asr_stream_error(stream: *const Stream) -> *const c_char;
    pub fn asr_stream_next_json(stream: *mut Stream) -> *const c_char;
}
