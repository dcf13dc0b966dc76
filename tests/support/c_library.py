"""libasr_stream through ctypes, with the methods of Python's Recognizer and Stream."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from asr.lm.packed import BUNDLED
from asr.runtime.neural_lm import bundled_neural_lm
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.punctuation import bundled_punctuation
from asr.runtime.search import Word
from asr.streaming.events import Alternative, Error, Event, Final, Gap, Partial


class _Word(ctypes.Structure):
    _fields_ = (("text", c_char_p), ("start_s", c_double), ("end_s", c_double), ("confidence", c_float))


class _Alternative(ctypes.Structure):
    _fields_ = (("text", c_char_p), ("confidence", c_float), ("words", POINTER(_Word)), ("num_words", c_size_t))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("text", c_char_p),
        ("start_s", c_double),
        ("end_s", c_double),
        ("words", POINTER(_Word)),
        ("num_words", c_size_t),
        ("num_stable", c_size_t),
        ("endpoint", c_char_p),
        ("raw", c_char_p),
        ("raw_words", POINTER(_Word)),
        ("num_raw_words", c_size_t),
        ("alternatives", POINTER(_Alternative)),
        ("num_alternatives", c_size_t),
        ("num_taken_back", c_size_t),
    )


_EVENTS = (Partial, Final, Gap, Error)  # in the order of asr_event_type


def _words(pointer: Any, count: int) -> tuple[Word, ...]:
    words = (pointer[i] for i in range(count))
    return tuple(Word(w.text.decode(), w.start_s, w.end_s, w.confidence) for w in words)


class LibraryError(Exception):
    """A status other than ASR_OK: `status`, and its message."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CLibrary:
    """libasr_stream through ctypes; asr_stream.h documents it."""

    def __init__(self, path: str | Path) -> None:
        self.c = ctypes.CDLL(str(path))
        for name in (
            "status_text",
            "version",
            "model_property",
            "model_property_name",
            "stream_error",
            "stream_warning",
            "stream_next_json",
            "settings_get",
        ):
            getattr(self.c, f"asr_{name}").restype = c_char_p
        self.c.asr_stream_next_event.restype = POINTER(_Event)
        self.c.asr_stream_sample_offset.restype = c_int64
        self.c.asr_settings_new.restype = c_void_p

    def model(self, source: str | Path | bytes, log: Any = None, **given: Any) -> CModel:
        """Opens a model file or its bytes. given: settings. Punctuation, neural language model and decoder have the
        same defaults as in Python."""
        given.setdefault("onnxruntime", onnxruntime_library())
        given.setdefault("punctuation", bundled_punctuation())
        if not isinstance(source, bytes) and decoder_beside(source).is_file():
            given.setdefault("decoder", decoder_beside(source))
        if given.get("lm") == BUNDLED:
            given.setdefault("neural_lm", bundled_neural_lm())
        settings = CSettings(self, **given)
        self.c.asr_settings_set_log(settings.handle, ctypes.cast(log, c_void_p) if log else None, None)
        handle, error = c_void_p(), ctypes.create_string_buffer(512)
        tail = (settings.handle, byref(handle), error, c_size_t(len(error)))
        if isinstance(source, bytes):
            status = self.c.asr_model_load_memory(source, c_size_t(len(source)), *tail)
        else:
            status = self.c.asr_model_load(str(source).encode(), *tail)
        if status:
            assert not handle
            raise LibraryError(status, error.value.decode())
        return CModel(self, handle, log)


class CSettings:
    """Settings by name, as Python has them; bytes for a file are its contents."""

    def __init__(self, library: CLibrary, **given: Any) -> None:
        self._c, self.handle = library.c, c_void_p(library.c.asr_settings_new())
        for name, value in given.items():
            self.set(name, value)

    def __del__(self) -> None:
        self._c.asr_settings_free(self.handle)

    def set(self, name: str, value: Any) -> None:
        error = ctypes.create_string_buffer(1024)
        head, tail = (self.handle, name.encode()), (error, c_size_t(len(error)))
        if isinstance(value, bytes):
            status = self._c.asr_settings_set_bytes(*head, value, c_size_t(len(value)), *tail)
        else:
            text = "\n".join(value) if isinstance(value, list | tuple) else str(value)
            text = text.lower() if isinstance(value, bool) else text
            status = self._c.asr_settings_set(*head, None if value is None else text.encode(), *tail)
        if status:
            raise LibraryError(status, error.value.decode())

    def get(self, name: str) -> str | None:
        value = self._c.asr_settings_get(self.handle, name.encode())
        return None if value is None else value.decode()


class CModel:
    def __init__(self, library: CLibrary, handle: c_void_p, log: Any) -> None:
        self.library, self.handle, self._log = library, handle, log

    def __del__(self) -> None:
        self.library.c.asr_model_free(self.handle)

    def property(self, key: str) -> str | None:
        value = self.library.c.asr_model_property(self.handle, key.encode())
        return None if value is None else value.decode()

    def properties(self) -> dict[str, str]:
        """All properties, in the library's order."""
        found: dict[str, str] = {}
        while name := self.library.c.asr_model_property_name(self.handle, c_size_t(len(found))):
            value = self.property(name.decode())
            assert value is not None
            found[name.decode()] = value
        return found

    def stream(self, sample_rate: int = 16000, **given: Any) -> CStream:
        """given: settings."""
        handle, settings = c_void_p(), CSettings(self.library, **given)
        tail = (byref(handle), ctypes.create_string_buffer(512), c_size_t(512))
        status = self.library.c.asr_stream_new(self.handle, c_int32(sample_rate), settings.handle, *tail)
        if status:
            raise LibraryError(status, tail[1].value.decode())
        return CStream(self.library, handle)


class CStream:
    """Has the methods of `asr.streaming.Stream`."""

    def __init__(self, library: CLibrary, handle: c_void_p) -> None:
        self._library, self._c, self.handle = library, library.c, handle

    def __del__(self) -> None:
        self._c.asr_stream_free(self.handle)

    def _check(self, status: int) -> None:
        if status:
            raise LibraryError(status, self._c.asr_stream_error(self.handle).decode())

    @property
    def warnings(self) -> list[str]:
        texts = (self._c.asr_stream_warning(self.handle, c_size_t(index)) for index in itertools.count())
        return [text.decode() for text in itertools.takewhile(bool, texts)]

    @property
    def sample_offset(self) -> int:
        return self._c.asr_stream_sample_offset(self.handle)

    def accept_waveform(self, samples: np.ndarray) -> None:
        samples = np.ascontiguousarray(samples)
        accept = {"float32": self._c.asr_stream_accept_f32, "int16": self._c.asr_stream_accept_i16}
        self._check(accept[samples.dtype.name](self.handle, samples.ctypes.data_as(c_void_p), c_size_t(len(samples))))

    def gap(self, num_samples: int) -> None:
        self._check(self._c.asr_stream_gap(self.handle, c_int64(num_samples)))

    def end_utterance(self) -> None:
        self._check(self._c.asr_stream_end_utterance(self.handle))

    def change(self, **given: Any) -> None:
        settings = CSettings(self._library, **given)
        self._check(self._c.asr_stream_change(self.handle, settings.handle))

    def finish(self) -> None:
        self._check(self._c.asr_stream_finish(self.handle))

    def json_events(self) -> list[str]:
        return [text.decode() for text in iter(lambda: self._c.asr_stream_next_json(self.handle), None)]

    def events(self) -> list[Event]:
        found: list[Event] = []
        while pointer := self._c.asr_stream_next_event(self.handle):
            event = pointer.contents
            kind = _EVENTS[event.type]
            span = (event.text.decode(), event.start_s, event.end_s, _words(event.words, event.num_words))
            more = {"raw": event.raw.decode(), "raw_words": _words(event.raw_words, event.num_raw_words)}
            if kind is Partial:
                more["num_stable"] = event.num_stable
            elif kind is Final:
                others = (event.alternatives[i] for i in range(event.num_alternatives))
                more["endpoint"] = event.endpoint.decode()
                more["alternatives"] = tuple(
                    Alternative(o.text.decode(), _words(o.words, o.num_words), o.confidence) for o in others
                )
            found.append(kind(*span, **more))
        return found


def onnxruntime_library() -> Path:
    """The ONNX Runtime library of the Python package."""
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None and spec.origin is not None
    names = ("libonnxruntime.so.*", "libonnxruntime*.dylib", "onnxruntime.dll")
    found = [path for name in names for path in (Path(spec.origin).parent / "capi").glob(name)]
    if not found:
        sys.exit("the package onnxruntime has no library for C: pip install 'onnxruntime>=1.20'")
    return found[0]
