package asr

// #include <stdlib.h>
// #include <asr_stream/asr_stream.h>
import "C"

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// Status is the kind of an Error.
type Status int

// The statuses of the C header.
const (
	InvalidArgument    Status = C.ASR_INVALID_ARGUMENT
	FileUnreadable     Status = C.ASR_FILE_UNREADABLE
	FileDamaged        Status = C.ASR_FILE_DAMAGED
	RuntimeUnavailable Status = C.ASR_RUNTIME_UNAVAILABLE
	OutOfMemory        Status = C.ASR_OUT_OF_MEMORY
	Busy               Status = C.ASR_BUSY
	Finished           Status = C.ASR_FINISHED
	Failed             Status = C.ASR_FAILED
	NotInitialized     Status = C.ASR_NOT_INITIALIZED
)

// Error is the reason why a call failed.
type Error struct {
	Status Status
	Text   string
}

func (e *Error) Error() string { return e.Text }

const differs = " differs in the loaded libasr_stream: build this program with the header of its version"

var inArrays = map[string]bool{"asr_word": true, "asr_alternative": true}

func first[T any](values []T) *T {
	if len(values) == 0 {
		return nil
	}
	return &values[0]
}

func newError(status C.asr_status, text *C.char) error {
	if status == C.ASR_OK {
		return nil
	}
	return &Error{Status(status), C.GoString(text)}
}

type message [1024]C.char

func (m *message) error(status C.asr_status) error { return newError(status, &m[0]) }

// memory holds the strings of a C call until they are freed, and the first error among them.
type memory struct {
	texts []*C.char
	err   error
}

// text returns the C form of a text; NULL for "" if orNull.
func (m *memory) text(text string, orNull bool) *C.char {
	if orNull && text == "" {
		return nil
	}
	if strings.Contains(text, "\x00") {
		m.err = &Error{InvalidArgument, fmt.Sprintf("%q has a NUL, where C ends a text", text)}
	}
	m.texts = append(m.texts, C.CString(text))
	return m.texts[len(m.texts)-1]
}

func (m *memory) free() {
	for _, text := range m.texts {
		C.free(unsafe.Pointer(text))
	}
}

func (m *memory) load(given ModelOptions,
	call func(*C.asr_model_options, **C.asr_model, *C.char, C.size_t) C.asr_status) (*Model, error) {
	defer m.free()
	if err := checkLayout(); err != nil {
		return nil, err
	}
	var options C.asr_model_options
	C.asr_model_options_init(&options, C.sizeof_asr_model_options)
	options.onnxruntime_path, options.lm_path = m.text(given.ONNXRuntime, true), m.text(given.LM, true)
	options.punctuation_path, options.neural_lm_path = m.text(given.Punctuation, true), m.text(given.NeuralLM, true)
	if given.NumThreads != 0 {
		options.num_threads = C.int32_t(given.NumThreads)
	}
	if m.err != nil {
		return nil, m.err
	}
	var text message
	var model Model
	if err := text.error(call(&options, &model.handle, &text[0], C.size_t(len(text)))); err != nil {
		return nil, err
	}
	return &model, nil
}

// use calls `call` with the settings in their C form. The loaded library gives the size of its options.
func (s Settings) use(call func(*C.asr_options, *C.asr_assets) error) error {
	var m memory
	defer m.free()
	size := C.asr_layout(m.text("asr_options", false))
	options := (*C.asr_options)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(options))
	C.asr_options_init(options, size)
	for name, value := range s.Options {
		var text message
		status := C.asr_options_set(options, m.text(name, false), m.text(value, false), &text[0], C.size_t(len(text)))
		if err := text.error(status); err != nil {
			return err
		}
	}
	var assets C.asr_assets
	C.asr_assets_init(&assets, C.sizeof_asr_assets)
	for member, lines := range map[**C.char][]string{&assets.hotwords: s.Hotwords, &assets.phrases: s.Phrases,
		&assets.mask: s.Mask, &assets.replace: s.Replace, &assets.command_list: s.CommandList} {
		*member = m.text(strings.Join(lines, "\n"), lines == nil)
	}
	if s.WithoutLM {
		assets.use_lm = 0
	}
	if m.err != nil {
		return m.err
	}
	return call(options, &assets)
}

// checkLayout compares the structs of the header with those of the loaded library. Each member must have the same
// offset. Structs used in arrays must have the same size; others may grow.
func checkLayout() error {
	var m memory
	defer m.free()
	for _, value := range []any{C.asr_model_options{}, C.asr_assets{}, C.asr_word{}, C.asr_alternative{},
		C.asr_event{}} {
		kind := reflect.TypeOf(value)
		name := strings.TrimPrefix(kind.Name(), "_Ctype_struct_")
		loaded := uintptr(C.asr_layout(m.text(name, false)))
		wrong := loaded+1 <= kind.Size() || inArrays[name] && loaded != kind.Size() // SIZE_MAX: unknown
		for i := 0; i < kind.NumField() && !wrong; i++ {
			field := kind.Field(i)
			member := m.text(name+"."+strings.TrimPrefix(field.Name, "_"), false) // cgo renames type to _type
			wrong = field.Name != "_" && uintptr(C.asr_layout(member)) != field.Offset
		}
		if wrong {
			return &Error{InvalidArgument, name + differs}
		}
	}
	return nil
}
