// Package asr is libasr_stream, streaming speech recognition, for Go. The C header asr_stream.h has the complete
// contract.
package asr

// #cgo pkg-config: asr_stream
// #include <asr_stream/asr_stream.h>
import "C"

import (
	"encoding/json"
	"unsafe"
)

// Settings say how to open a model, and how a stream recognizes, by name: "lm": "english.lm", "chunk_ms": 320,
// "second_pass": false, "hotwords": []string{"Abbey Road"}. nil stands for the defaults.
type Settings map[string]any

// Model is an open model file. Goroutines and streams share it, and it may be closed before its streams.
type Model struct{ handle *C.asr_model }

// Open opens a model file.
func Open(path string, settings Settings) (*Model, error) {
	var model *Model
	err := withText(path, func(path *C.char) (err error) {
		model, err = load(settings, func(s *C.asr_settings, handle **C.asr_model, m *message) C.asr_status {
			return C.asr_model_load(path, s, handle, &m[0], C.size_t(len(m)))
		})
		return err
	})
	return model, err
}

// OpenBytes opens the bytes of a model file.
func OpenBytes(data []byte, settings Settings) (*Model, error) {
	return load(settings, func(s *C.asr_settings, handle **C.asr_model, m *message) C.asr_status {
		return C.asr_model_load_memory(unsafe.Pointer(first(data)), C.size_t(len(data)), s, handle, &m[0],
			C.size_t(len(m)))
	})
}

func load(settings Settings, call func(*C.asr_settings, **C.asr_model, *message) C.asr_status) (*Model, error) {
	var handle *C.asr_model
	err := settings.use(func(s *C.asr_settings) error {
		var m message
		return m.error(call(s, &handle, &m))
	})
	if err != nil {
		return nil, err
	}
	return &Model{handle}, nil
}

// Properties of the model, such as "language": "en".
func (m *Model) Properties() map[string]string {
	found := map[string]string{}
	for {
		name := C.asr_model_property_name(m.handle, C.size_t(len(found)))
		if name == nil {
			return found
		}
		found[C.GoString(name)] = C.GoString(C.asr_model_property(m.handle, name))
	}
}

// Stream begins a stream of mono audio at this sample rate in Hz.
func (m *Model) Stream(sampleRate int, settings Settings) (*Stream, error) {
	var handle *C.asr_stream
	err := settings.use(func(s *C.asr_settings) error {
		var text message
		return text.error(C.asr_stream_new(m.handle, C.int32_t(sampleRate), s, &handle, &text[0], C.size_t(len(text))))
	})
	if err != nil {
		return nil, err
	}
	return &Stream{handle}, nil
}

// Close frees the model.
func (m *Model) Close() { C.asr_model_free(m.handle); m.handle = nil }

// Stream is one source of audio, for one goroutine at a time. Calls do their work in the calling goroutine.
type Stream struct{ handle *C.asr_stream }

// Accept continues with more samples.
func (s *Stream) Accept(samples []int16) error {
	return s.check(C.asr_stream_accept_i16(s.handle, (*C.int16_t)(first(samples)), C.size_t(len(samples))))
}

// AcceptFloats continues with samples in [-1, 1].
func (s *Stream) AcceptFloats(samples []float32) error {
	return s.check(C.asr_stream_accept_f32(s.handle, (*C.float)(first(samples)), C.size_t(len(samples))))
}

// Gap reports that numSamples of audio were lost here, which ends the utterance.
func (s *Stream) Gap(numSamples int64) error {
	return s.check(C.asr_stream_gap(s.handle, C.int64_t(numSamples)))
}

// EndUtterance ends the utterance here; its final follows.
func (s *Stream) EndUtterance() error { return s.check(C.asr_stream_end_utterance(s.handle)) }

// Change ends the utterance; later audio is recognized with other settings.
func (s *Stream) Change(settings Settings) error {
	return settings.use(func(handle *C.asr_settings) error {
		return s.check(C.asr_stream_change(s.handle, handle))
	})
}

// Finish ends the audio; the last events follow.
func (s *Stream) Finish() error { return s.check(C.asr_stream_finish(s.handle)) }

// SampleOffset is the position of the next sample, in 16 kHz samples including gaps.
func (s *Stream) SampleOffset() int64 { return int64(C.asr_stream_sample_offset(s.handle)) }

// Warnings are sentences about a missing language model and skipped lines of the present settings.
func (s *Stream) Warnings() []string {
	var found []string
	for {
		text := C.asr_stream_warning(s.handle, C.size_t(len(found)))
		if text == nil {
			return found
		}
		found = append(found, C.GoString(text))
	}
}

// Events returns the new events, oldest first.
func (s *Stream) Events() []Event {
	var events []Event
	for text := C.asr_stream_next_json(s.handle); text != nil; text = C.asr_stream_next_json(s.handle) {
		var event Event
		if err := json.Unmarshal([]byte(C.GoString(text)), &event); err != nil {
			panic("libasr_stream is of another version: " + err.Error())
		}
		events = append(events, event)
	}
	return events
}

// Close frees the stream.
func (s *Stream) Close() { C.asr_stream_free(s.handle); s.handle = nil }

func (s *Stream) check(status C.asr_status) error {
	if s.handle == nil || status == C.ASR_BUSY { // the error message may belong to another goroutine
		return newError(status, C.asr_status_text(status))
	}
	return newError(status, C.asr_stream_error(s.handle))
}

// Kind is the type of an Event.
type Kind string

// The kinds of events.
const (
	Partial Kind = "partial"
	Final   Kind = "final"
	Gap     Kind = "gap"
	Failure Kind = "error"
)

// Word is a word of an Event, with its times in seconds.
type Word struct {
	Word       string
	Start, End float64
	Confidence float32
}

// Alternative is another hypothesis for the utterance of a Final.
type Alternative struct {
	Text       string
	Confidence float32
	Words      []Word
}

// Event is recognized text, a gap or an error, with its times in seconds.
type Event struct {
	Kind       Kind `json:"type"`
	Text       string
	Start, End float64
	Words      []Word
	Raw        string
	RawWords   []Word `json:"raw_words"`
	// For a Partial: the number of leading words that hardly change.
	NumStable int `json:"num_stable"`
	// For a Final: the rule that ended it.
	Endpoint string
	// For a Final, with the option max_alternatives.
	Alternatives []Alternative
	// For a Final: how many earlier Finals are taken back ("scratch that").
	NumTakenBack int `json:"num_taken_back"`
}
