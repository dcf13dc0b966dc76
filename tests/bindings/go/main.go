// Prints results that tests/bindings/test_bindings.py compares with Python's; see `expected` there.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"

	asr "asr-stream/bindings/go"
)

func words(words []asr.Word) string {
	var texts []string
	for _, w := range words {
		start, end := math.Float64bits(w.Start), math.Float64bits(w.End)
		texts = append(texts, fmt.Sprintf("%s:%x:%x:%x", w.Word, start, end, math.Float32bits(w.Confidence)))
	}
	return strings.Join(texts, " ")
}

func show(clip int, stream *asr.Stream) {
	for _, e := range stream.Events() {
		var others []string
		for _, o := range e.Alternatives {
			others = append(others, fmt.Sprintf("%s:%x:%s", o.Text, math.Float32bits(o.Confidence), words(o.Words)))
		}
		fmt.Printf("%d\t%s\t%s\t%x\t%x\t%s\t%d\t%s\t%s\t%s\t%s\t%d\n", clip, e.Kind, e.Text, math.Float64bits(e.Start),
			math.Float64bits(e.End), words(e.Words), e.NumStable, e.Endpoint, e.Raw, words(e.RawWords),
			strings.Join(others, "|"), e.NumTakenBack)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func report(err error) {
	var refused *asr.Error
	if errors.As(err, &refused) {
		fmt.Printf("error\t%d\t%s\n", refused.Status, err)
	}
}

func run(clip int, model *asr.Model, samples []int16) {
	settings, rate := asr.Settings{}, 16000
	if clip%2 == 1 {
		settings["chunk_ms"] = 320
	}
	switch clip {
	case 3:
		rate = 8000
	case 4:
		settings["hotwords"] = []any{"theodolite", "R2", "lorry"} // as from JSON
		settings["replace"] = []string{"children -> kids"}
		settings["own_commands"] = []string{"old man walked slowly down the road -> scratch that"}
	case 5:
		settings["phrases"] = []string{"old", "man", "road"}
	case 6:
		settings["use_lm"] = false
		settings["search"] = "beam"
		settings["silence_without_speech_s"] = math.Inf(1)
	case 9:
		settings["max_alternatives"] = 3
	}
	stream, err := model.Stream(rate, settings)
	must(err)
	defer stream.Close()
	for _, warning := range stream.Warnings() {
		fmt.Printf("warning\t%s\n", warning)
	}
	for index := 0; 1600*index < len(samples); index++ {
		end := 1600 * (index + 1)
		if end > len(samples) {
			end = len(samples)
		}
		piece := samples[1600*index : end]
		if index == 20 && clip == 1 {
			must(stream.Gap(4001))
		} else if index == 20 && clip == 2 {
			must(stream.EndUtterance())
		} else if index == 20 && clip == 8 {
			must(stream.Change(asr.Settings{"mask": []string{"the", "man"}, "text": "plain"}))
		}
		if clip == 7 {
			var floats []float32
			for _, sample := range piece {
				floats = append(floats, float32(sample)/32768)
			}
			must(stream.AcceptFloats(floats))
		} else {
			must(stream.Accept(piece))
		}
		show(clip, stream)
	}
	must(stream.Finish())
	show(clip, stream)
	fmt.Printf("%d\t%d\n", clip, stream.SampleOffset())
	if clip == 0 {
		report(stream.Accept(samples))
	}
}

func main() {
	args := os.Args
	bytes, err := os.ReadFile(args[1])
	must(err)
	model, err := asr.OpenBytes(bytes, asr.Settings{"lm": args[2], "punctuation": args[3], "neural_lm": args[4]})
	must(err)
	defer model.Close()
	var properties []string
	for name, value := range model.Properties() {
		if name != "config" && name != "training" {
			properties = append(properties, name+"\t"+strings.ReplaceAll(value, "\n", " "))
		}
	}
	sort.Strings(properties)
	fmt.Println(strings.Join(properties, "\n"))
	_, err = asr.Open("/nowhere.onnx", nil)
	report(err)
	for _, settings := range []asr.Settings{
		{"beam_sise": 5},
		{"beam_size": 0},
		{"text": ""},
		{"phrases": []string{}},
		{"mask": []string{"a\x00b"}},
	} {
		_, err = model.Stream(16000, settings)
		report(err)
	}
	_, err = model.Stream(999, nil)
	report(err)
	for clip, path := range args[5:] {
		bytes, err := os.ReadFile(path)
		must(err)
		samples := make([]int16, len(bytes)/2)
		for i := range samples {
			samples[i] = int16(binary.LittleEndian.Uint16(bytes[2*i:]))
		}
		run(clip, model, samples)
	}
}
