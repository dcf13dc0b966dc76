// Captions a WAV file, or live raw 16-bit samples at 16 kHz from standard input:
//
//	transcribe MODEL.onnx FILE.wav|- [LANGUAGE_MODEL.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]]
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	asr "asr-stream/bindings/go"
)

// Writes partials to standard error, each over the previous one, and finals with their times to standard output.
func printEvents(stream *asr.Stream) {
	for _, event := range stream.Events() {
		fmt.Fprint(os.Stderr, "\r\033[K")
		if event.Kind == asr.Partial {
			fmt.Fprint(os.Stderr, event.Text)
		} else {
			fmt.Printf("%8.2f %8.2f  %s\n", event.Start, event.End, event.Text)
		}
	}
}

// The samples of a WAV file of 16-bit PCM, one channel, 16 kHz.
func wavSamples(path string) (io.Reader, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known := false
	for rest := file[min(12, len(file)):]; len(rest) >= 8; {
		name, size := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
		chunk := rest[8 : 8+min(size, len(rest)-8)]
		if name == "fmt " {
			known = len(chunk) > 15 && string(chunk[:8]) == "\x01\x00\x01\x00\x80\x3e\x00\x00" && chunk[14] == 16
		} else if name == "data" && known && string(file[:4]) == "RIFF" {
			return bytes.NewReader(chunk), nil
		}
		rest = rest[min(8+size+size%2, len(rest)):]
	}
	return nil, errors.New(path + " is not a WAV file of 16-bit PCM with one channel at 16 kHz")
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func transcribe(model, source string, settings asr.Settings) (err error) {
	var audio io.Reader = os.Stdin
	if source != "-" {
		if audio, err = wavSamples(source); err != nil {
			return err
		}
	}
	opened, err := asr.Open(model, settings)
	if err != nil {
		return err
	}
	defer opened.Close()
	stream, err := opened.Stream(16000, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	for buffer := make([]byte, 3200); ; { // 0.1 s
		count, end := io.ReadFull(audio, buffer)
		samples := make([]int16, count/2)
		for i := range samples {
			samples[i] = int16(binary.LittleEndian.Uint16(buffer[2*i:]))
		}
		if err := stream.Accept(samples); err != nil {
			return err
		}
		printEvents(stream)
		if end != nil {
			break
		}
	}
	defer printEvents(stream)
	return stream.Finish()
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: transcribe MODEL.onnx FILE.wav|- [LM.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]]")
		os.Exit(2)
	}
	settings := asr.Settings{}
	for i, name := range []string{"lm", "punctuation", "neural_lm"} {
		if len(os.Args) > 3+i {
			settings[name] = os.Args[3+i]
		}
	}
	if err := transcribe(os.Args[1], os.Args[2], settings); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
