package asr

// #include <stdlib.h>
// #include <asr_stream/asr_stream.h>
import "C"

import (
	"fmt"
	"math"
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
)

// Error is the reason why a call failed.
type Error struct {
	Status Status
	Text   string
}

func (e *Error) Error() string { return e.Text }

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

// withText calls `call` with the C form of a text.
func withText(text string, call func(*C.char) error) error {
	if strings.Contains(text, "\x00") {
		return &Error{InvalidArgument, fmt.Sprintf("%q has a NUL, where C ends a text", text)}
	}
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	return call(c)
}

// settingText is the text of a setting: for a list of any type, such as []any from JSON, a line for each value.
func settingText(value any) string {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Slice, reflect.Array:
		lines := make([]string, v.Len())
		for i := range lines {
			lines[i] = settingText(v.Index(i).Interface())
		}
		return strings.Join(lines, "\n")
	case reflect.Float32, reflect.Float64:
		if math.IsInf(v.Float(), 1) {
			return "inf" // Go writes +Inf
		}
	}
	return fmt.Sprint(value)
}

// use calls `call` with the C form of the settings.
func (s Settings) use(call func(*C.asr_settings) error) error {
	handle := C.asr_settings_new()
	defer C.asr_settings_free(handle)
	for name, value := range s {
		text := settingText(value)
		err := withText(name, func(name *C.char) error {
			return withText(text, func(text *C.char) error {
				var m message
				return m.error(C.asr_settings_set(handle, name, text, &m[0], C.size_t(len(m))))
			})
		})
		if err != nil {
			return err
		}
	}
	return call(handle)
}
