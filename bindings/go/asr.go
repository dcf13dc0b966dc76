// Package asr is libasr_stream, streaming speech recognition, for Go. The C header asr_stream.h has the complete
// contract.
package asr

// #cgo pkg-config: asr_stream
// #include <asr_stream/asr_stream.h>
import "C"

import "unsafe"

// ModelOptions say how to open a model; "" stands for the default of the C API, and 0 threads for one thread.
type ModelOptions struct {
	ONNXRuntime, LM, Punctuation, NeuralLM string // paths
	NumThreads                             int
}

// Settings are the options of a stream by name, and its lists of words and phrases. A nil list stands for none.
type Settings struct {
	Options                                       map[string]string // such as "chunk_ms": "320"
	Hotwords, Phrases, Mask, Replace, CommandList []string
	WithoutLM                                     bool
}

// Model is an open model file. Goroutines and streams share it, and it may be closed before its streams.
type Model struct{ handle *C.asr_model }

// Open opens a model file.
func Open(path string, options ModelOptions) (*Model, error) {
	var m memory
	name := m.text(path, false)
	return m.load(options, func(o *C.asr_model_options, handle **C.asr_model, e *C.char, size C.size_t) C.asr_status {
		return C.asr_model_load(name, o, handle, e, size)
	})
}

// OpenBytes opens the bytes of a model file.
func OpenBytes(data []byte, options ModelOptions) (*Model, error) {
	var m memory
	return m.load(options, func(o *C.asr_model_options, handle **C.asr_model, e *C.char, size C.size_t) C.asr_status {
		return C.asr_model_load_memory(unsafe.Pointer(first(data)), C.size_t(len(data)), o, handle, e, size)
	})
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
	var text message
	err := settings.use(func(o *C.asr_options, a *C.asr_assets) error {
		return text.error(C.asr_stream_new(m.handle, C.int32_t(sampleRate), o, a, &handle, &text[0], C.size_t(len(text))))
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
	return settings.use(func(o *C.asr_options, a *C.asr_assets) error {
		return s.check(C.asr_stream_change(s.handle, o, a))
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
	for e := C.asr_stream_next_event(s.handle); e != nil; e = C.asr_stream_next_event(s.handle) {
		events = append(events, newEvent(e))
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
type Kind int

// The kinds of events.
const (
	Partial Kind = C.ASR_PARTIAL
	Final   Kind = C.ASR_FINAL
	Gap     Kind = C.ASR_GAP
	Failure Kind = C.ASR_ERROR
)

func (k Kind) String() string { return [...]string{"partial", "final", "gap", "error"}[k] }

// Word is a word of an Event, with its times in seconds.
type Word struct {
	Text       string
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
	Kind       Kind
	Text       string
	Start, End float64
	Words      []Word
	// For a Partial, the number of leading words that hardly change; for a Final, how many earlier Finals are taken back
	// ("scratch that").
	NumStable, NumTakenBack int
	Endpoint                string // for a Final: the rule that ended it
	Raw                     string
	RawWords                []Word
	// For a Final, with the option max_alternatives.
	Alternatives []Alternative
}

func newEvent(e *C.asr_event) Event {
	event := Event{
		Kind: Kind(e._type), Text: C.GoString(e.text), Start: float64(e.start_s), End: float64(e.end_s),
		Words: newWords(e.words, e.num_words), NumStable: int(e.num_stable), Endpoint: C.GoString(e.endpoint),
		Raw: C.GoString(e.raw), RawWords: newWords(e.raw_words, e.num_raw_words), NumTakenBack: int(e.num_taken_back),
	}
	for _, a := range unsafe.Slice(e.alternatives, e.num_alternatives) {
		other := Alternative{C.GoString(a.text), float32(a.confidence), newWords(a.words, a.num_words)}
		event.Alternatives = append(event.Alternatives, other)
	}
	return event
}

func newWords(first *C.asr_word, count C.size_t) []Word {
	var words []Word
	for _, w := range unsafe.Slice(first, count) {
		words = append(words, Word{C.GoString(w.text), float64(w.start_s), float64(w.end_s), float32(w.confidence)})
	}
	return words
}
