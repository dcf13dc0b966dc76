// Transcribes a WAV file, 16-bit PCM and mono, best at 16 kHz:
//
//     node transcribe.mjs --model tiny.int8.onnx --lm english.lm --neural-lm english.neural.onnx \
//       --punctuation english.punctuation.onnx speech.wav
//
// One line per utterance; with --json all events, one a line.
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { Recognizer } from "asr-stream";
import { readWav } from "asr-stream/wav";

const USAGE = "usage: node transcribe.mjs --model FILE.onnx --lm FILE.lm [--neural-lm FILE.onnx] " +
  "[--punctuation FILE.onnx] [--text plain] [--chunk-ms 640] [--json] FILE.wav";

/** @param {string} path */
async function readAudio(path) {
  try {
    return readWav(await readFile(path));
  } catch (error) {
    throw new Error(`${path} cannot be read: ${/** @type {Error} */ (error).message}`);
  }
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      model: { type: "string" },
      lm: { type: "string" },
      "neural-lm": { type: "string" },
      punctuation: { type: "string" },
      text: { type: "string" },
      "chunk-ms": { type: "string" },
      json: { type: "boolean", default: false },
    },
  });
  // Without a language model the bundled model spells words by their sound, and most are wrong.
  if (!values.model || !values.lm || positionals.length !== 1) throw new Error(USAGE);
  const { samples, sampleRate } = await readAudio(positionals[0]);
  const recognizer = await Recognizer.load({
    model: values.model,
    lm: values.lm,
    neuralLm: values["neural-lm"] ?? null,
    punctuation: values.punctuation ?? null,
    text: /** @type {"formatted" | "plain" | undefined} */ (values.text),
    chunkMs: values["chunk-ms"] ? Number(values["chunk-ms"]) : undefined,
  });

  const stream = recognizer.stream();
  /** @param {import("asr-stream").StreamEvent[]} events */
  const show = (events) => {
    for (const event of events) {
      if (values.json) console.log(JSON.stringify(event));
      else if (event.type === "final") console.log(event.text);
    }
  };
  const block = sampleRate / 10; // as a live source would bring it
  for (let begin = 0; begin < samples.length; begin += block) {
    show(await stream.accept(samples.subarray(begin, begin + block), sampleRate));
  }
  show(await stream.finish());
  await recognizer.close();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
