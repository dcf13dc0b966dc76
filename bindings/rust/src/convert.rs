//! Converts Rust values to those of the C header, and back.
use super::*;

fn invalid(text: String) -> Error {
    Error { status: ASR_INVALID_ARGUMENT, text }
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| invalid(format!("{:?} has a NUL, where C ends a text", text)))
}

pub fn path_text(path: &Path) -> Result<CString, Error> {
    c_string(path.to_str().ok_or_else(|| invalid(format!("{:?} is not UTF-8", path)))?)
}

/// Sets members of a C struct to strings, which must be kept as long as the struct is in use.
pub fn point_at<const N: usize>(
    members: [&mut *const c_char; N],
    texts: [Option<Result<CString, Error>>; N],
) -> Result<Vec<Option<CString>>, Error> {
    let texts = texts.into_iter().map(Option::transpose).collect::<Result<Vec<_>, _>>()?;
    members.into_iter().zip(&texts).for_each(|(m, text)| *m = text.as_ref().map_or(ptr::null(), |t| t.as_ptr()));
    Ok(texts)
}

pub fn string(text: *const c_char) -> String {
    let text = if text.is_null() { Default::default() } else { unsafe { CStr::from_ptr(text) } };
    text.to_string_lossy().into_owned()
}

pub fn with_error(call: impl FnOnce(*mut c_char) -> sys::asr_status) -> Result<(), Error> {
    let mut text = [0; ERROR];
    let status = call(text.as_mut_ptr());
    if status == sys::ASR_OK { Ok(()) } else { Err(Error { status, text: string(text.as_ptr()) }) }
}

/// Returns the result of `call` with the settings in the form of the C API; the library gives the size of options.
pub fn with_settings<F, T>(given: &Settings, call: F) -> Result<T, Error>
where
    F: FnOnce(*const sys::asr_options, *const sys::asr_assets) -> T,
{
    let size = unsafe { sys::asr_layout(b"asr_options\0".as_ptr().cast()) };
    let mut memory = vec![0u64; (size + 7) / 8];
    let options: *mut sys::asr_options = memory.as_mut_ptr().cast();
    unsafe { sys::asr_options_init(options, size) };
    for (name, value) in &given.options {
        let (name, value) = (c_string(name)?, c_string(value)?);
        with_error(|e| unsafe { sys::asr_options_set(options, name.as_ptr(), value.as_ptr(), e, ERROR) })?;
    }
    let mut a: sys::asr_assets = unsafe { mem::zeroed() };
    unsafe { sys::asr_assets_init(&mut a, mem::size_of_val(&a)) };
    a.use_lm = !given.without_lm as i32;
    let members = [&mut a.hotwords, &mut a.phrases, &mut a.mask, &mut a.replace, &mut a.command_list];
    let lists = [&given.hotwords, &given.phrases, &given.mask, &given.replace, &given.command_list];
    let _texts = point_at(members, lists.map(|list| list.as_ref().map(|list| c_string(&list.join("\n")))))?;
    Ok(call(options, &a))
}

/// Converts `count` C values with `convert`.
fn list<C, T>(first: *const C, count: usize, convert: impl Fn(&C) -> T) -> Vec<T> {
    (0..count).map(|i| convert(unsafe { &*first.add(i) })).collect()
}

pub fn event(event: &sys::asr_event) -> Event {
    let word = |w: &sys::asr_word| {
        let (start_s, end_s, confidence) = (w.start_s, w.end_s, w.confidence);
        Word { text: string(w.text), start_s, end_s, confidence }
    };
    let alternative = |a: &sys::asr_alternative| {
        let words = list(a.words, a.num_words, word);
        Alternative { text: string(a.text), confidence: a.confidence, words }
    };
    Event {
        kind: [EventKind::Partial, EventKind::Final, EventKind::Gap, EventKind::Error][event.type_.min(3) as usize],
        text: string(event.text),
        start_s: event.start_s,
        end_s: event.end_s,
        words: list(event.words, event.num_words, word),
        num_stable: event.num_stable,
        endpoint: string(event.endpoint),
        raw: string(event.raw),
        raw_words: list(event.raw_words, event.num_raw_words, word),
        alternatives: list(event.alternatives, event.num_alternatives, alternative),
        num_taken_back: event.num_taken_back,
    }
}

/// Checks that the loaded library has the structs of sys.rs: each member has the same offset; structs used in arrays
/// have the same size, others may grow.
pub fn check_layout() -> Result<(), Error> {
    macro_rules! rows {
        ($($name:ident { $($member:ident),* })*) => { [$(
            (stringify!($name).to_string(), mem::size_of::<sys::$name>()),
            $((concat!(stringify!($name), ".", stringify!($member)).replace("type_", "type"), {
                let value = mem::MaybeUninit::<sys::$name>::uninit();
                unsafe { ptr::addr_of!((*value.as_ptr()).$member) as usize - value.as_ptr() as usize }
            }),)*
        )*] };
    }
    for (name, bytes) in rows! {
        asr_model_options { struct_size, onnxruntime_path, lm_path, num_threads, punctuation_path, neural_lm_path }
        asr_assets { struct_size, hotwords, phrases, mask, use_lm, replace, command_list }
        asr_word { text, start_s, end_s, confidence }
        asr_alternative { text, confidence, words, num_words }
        asr_event {
            type_, text, start_s, end_s, words, num_words, num_stable, endpoint, raw, raw_words, num_raw_words,
            alternatives, num_alternatives, num_taken_back
        }
    } {
        let loaded = unsafe { sys::asr_layout(c_string(&name)?.as_ptr()) } as isize;
        let may_grow = !name.contains('.') && name != "asr_word" && name != "asr_alternative";
        if loaded < bytes as isize || (loaded > bytes as isize && !may_grow) {
            let text = format!("{name} is {bytes} bytes here, {loaded} in the loaded libasr_stream: build with its header");
            return Err(invalid(text));
        }
    }
    Ok(())
}
