//! Written by sys.sh: the C header without asr_options, which is used by names alone.
#[repr(C)] pub struct asr_options { _unused: [u8; 0] }

pub const ASR_SAMPLE_RATE: u32 = 16000;
pub const ASR_MIN_SAMPLE_RATE: u32 = 1000;
pub const ASR_MAX_SAMPLE_RATE: u32 = 768000;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct asr_model {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct asr_stream {
    _unused: [u8; 0],
}
pub const ASR_OK: asr_status = 0;
pub const ASR_INVALID_ARGUMENT: asr_status = 1;
pub const ASR_FILE_UNREADABLE: asr_status = 2;
pub const ASR_FILE_DAMAGED: asr_status = 3;
pub const ASR_RUNTIME_UNAVAILABLE: asr_status = 4;
pub const ASR_OUT_OF_MEMORY: asr_status = 5;
pub const ASR_BUSY: asr_status = 6;
pub const ASR_FINISHED: asr_status = 7;
pub const ASR_FAILED: asr_status = 8;
pub const ASR_NOT_INITIALIZED: asr_status = 9;
pub type asr_status = ::std::os::raw::c_uint;
extern "C" {
    pub fn asr_status_text(status: asr_status) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn asr_version() -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn asr_layout(name: *const ::std::os::raw::c_char) -> usize;
}
pub const ASR_LOG_ERROR: asr_log_level = 0;
pub const ASR_LOG_INFO: asr_log_level = 1;
pub type asr_log_level = ::std::os::raw::c_uint;
pub type asr_log_callback = ::std::option::Option<
    unsafe extern "C" fn(
        user_data: *mut ::std::os::raw::c_void,
        level: asr_log_level,
        text: *const ::std::os::raw::c_char,
    ),
>;
#[repr(C)]
pub struct asr_model_options {
    pub struct_size: usize,
    pub onnxruntime_path: *const ::std::os::raw::c_char,
    pub lm_path: *const ::std::os::raw::c_char,
    pub lm_data: *const ::std::os::raw::c_void,
    pub lm_size: usize,
    pub num_threads: i32,
    pub reserved: i32,
    pub log: asr_log_callback,
    pub log_user_data: *mut ::std::os::raw::c_void,
    pub punctuation_path: *const ::std::os::raw::c_char,
    pub punctuation_data: *const ::std::os::raw::c_void,
    pub punctuation_size: usize,
    pub neural_lm_path: *const ::std::os::raw::c_char,
    pub neural_lm_data: *const ::std::os::raw::c_void,
    pub neural_lm_size: usize,
}
#[repr(C)]
pub struct asr_assets {
    pub struct_size: usize,
    pub hotwords: *const ::std::os::raw::c_char,
    pub phrases: *const ::std::os::raw::c_char,
    pub mask: *const ::std::os::raw::c_char,
    pub use_lm: i32,
    pub reserved: i32,
    pub replace: *const ::std::os::raw::c_char,
    pub command_list: *const ::std::os::raw::c_char,
}
extern "C" {
    pub fn asr_model_options_init(options: *mut asr_model_options, struct_size: usize);
}
extern "C" {
    pub fn asr_options_init(options: *mut asr_options, struct_size: usize);
}
extern "C" {
    pub fn asr_assets_init(assets: *mut asr_assets, struct_size: usize);
}
extern "C" {
    pub fn asr_options_set(
        options: *mut asr_options,
        name: *const ::std::os::raw::c_char,
        value: *const ::std::os::raw::c_char,
        error: *mut ::std::os::raw::c_char,
        error_size: usize,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_model_load(
        path: *const ::std::os::raw::c_char,
        options: *const asr_model_options,
        model: *mut *mut asr_model,
        error: *mut ::std::os::raw::c_char,
        error_size: usize,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_model_load_memory(
        data: *const ::std::os::raw::c_void,
        size: usize,
        options: *const asr_model_options,
        model: *mut *mut asr_model,
        error: *mut ::std::os::raw::c_char,
        error_size: usize,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_model_free(model: *mut asr_model);
}
extern "C" {
    pub fn asr_model_property(
        model: *const asr_model,
        name: *const ::std::os::raw::c_char,
    ) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn asr_model_property_name(
        model: *const asr_model,
        index: usize,
    ) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn asr_stream_new(
        model: *const asr_model,
        sample_rate: i32,
        options: *const asr_options,
        assets: *const asr_assets,
        stream: *mut *mut asr_stream,
        error: *mut ::std::os::raw::c_char,
        error_size: usize,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_stream_free(stream: *mut asr_stream);
}
extern "C" {
    pub fn asr_stream_accept_f32(
        stream: *mut asr_stream,
        samples: *const f32,
        num_samples: usize,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_stream_accept_i16(
        stream: *mut asr_stream,
        samples: *const i16,
        num_samples: usize,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_stream_gap(stream: *mut asr_stream, num_samples: i64) -> asr_status;
}
extern "C" {
    pub fn asr_stream_end_utterance(stream: *mut asr_stream) -> asr_status;
}
extern "C" {
    pub fn asr_stream_change(
        stream: *mut asr_stream,
        options: *const asr_options,
        assets: *const asr_assets,
    ) -> asr_status;
}
extern "C" {
    pub fn asr_stream_finish(stream: *mut asr_stream) -> asr_status;
}
extern "C" {
    pub fn asr_stream_sample_offset(stream: *mut asr_stream) -> i64;
}
extern "C" {
    pub fn asr_stream_warning(
        stream: *const asr_stream,
        index: usize,
    ) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn asr_stream_error(stream: *const asr_stream) -> *const ::std::os::raw::c_char;
}
pub const ASR_PARTIAL: asr_event_type = 0;
pub const ASR_FINAL: asr_event_type = 1;
pub const ASR_GAP: asr_event_type = 2;
pub const ASR_ERROR: asr_event_type = 3;
pub type asr_event_type = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct asr_word {
    pub text: *const ::std::os::raw::c_char,
    pub start_s: f64,
    pub end_s: f64,
    pub confidence: f32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct asr_alternative {
    pub text: *const ::std::os::raw::c_char,
    pub confidence: f32,
    pub words: *const asr_word,
    pub num_words: usize,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct asr_event {
    pub type_: asr_event_type,
    pub text: *const ::std::os::raw::c_char,
    pub start_s: f64,
    pub end_s: f64,
    pub words: *const asr_word,
    pub num_words: usize,
    pub num_stable: usize,
    pub endpoint: *const ::std::os::raw::c_char,
    pub raw: *const ::std::os::raw::c_char,
    pub raw_words: *const asr_word,
    pub num_raw_words: usize,
    pub alternatives: *const asr_alternative,
    pub num_alternatives: usize,
    pub num_taken_back: usize,
}
extern "C" {
    pub fn asr_stream_next_event(stream: *mut asr_stream) -> *const asr_event;
}
