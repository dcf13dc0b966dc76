// The recognizer, outside of the page's own thread.
//
// Takes {type: "load", model, lm, neuralLm, punctuation}, then {type: "begin", sampleRate}, {type: "audio", samples,
// sentAt} and {type: "end", sentAt}; gives {type: "progress" | "ready" | "failed" | "events" | "ended", ...}.

import * as ort from "./ort/ort.wasm.bundle.min.mjs";
import { Recognizer } from "./asr-stream/src/index.js";

// Models, runtime and state are in WebAssembly memories, whose sizes are reported.
const memories = [];
WebAssembly.Memory = class extends WebAssembly.Memory {
  constructor(descriptor) {
    super(descriptor);
    memories.push(this);
  }
};
const memory = () => memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);

let recognizer, stream, sampleRate, sentAt;
let busyMs = 0, audioS = 0;
let waiting = []; // samples that arrived while others were recognized
let last = Promise.resolve();

const handlers = {
  async load({ model, lm, neuralLm, punctuation }) {
    const start = performance.now();
    ort.env.wasm.numThreads = 1; // more would need a page that is isolated by headers (COOP, COEP)
    ort.env.wasm.wasmPaths = { wasm: new URL("./ort/ort-wasm-simd-threaded.wasm", import.meta.url) };
    const numBytes = {};
    const report = (name) => (count) => {
      numBytes[name] = count;
      postMessage({ type: "progress", numBytes: Object.values(numBytes).reduce((sum, each) => sum + each, 0) });
    };
    const [modelBytes, lmBytes, neuralLmBytes, punctuationBytes] = await Promise.all([
      download(model, "the model", report("model")), download(lm, "the language model", report("lm")),
      download(neuralLm, "the neural language model", report("neuralLm")),
      download(punctuation, "the punctuation model", report("punctuation")),
    ]);
    recognizer = await Recognizer.load({
      model: modelBytes, lm: lmBytes, neuralLm: neuralLmBytes, punctuation: punctuationBytes, ort,
    });
    postMessage({ type: "ready", seconds: (performance.now() - start) / 1000, memory: memory() });
  },
  begin(message) {
    stream = recognizer.stream();
    sampleRate = message.sampleRate;
    busyMs = audioS = 0;
  },
  async audio() {
    if (!waiting.length) return; // they were taken together with an earlier message
    const samples = concatenated(waiting.splice(0));
    audioS += samples.length / sampleRate;
    await run(() => stream.accept(samples, sampleRate));
  },
  async end() {
    try {
      await run(() => stream.finish());
    } finally {
      postMessage({ type: "ended" });
    }
  },
};

onmessage = ({ data }) => {
  if (data.type === "audio") waiting.push(data.samples);
  last = last.then(async () => {
    sentAt = data.sentAt;
    await handlers[data.type](data);
  }).catch((error) => postMessage({ type: "failed", message: error.message }));
};

async function run(task) {
  const start = performance.now();
  const events = await task();
  busyMs += performance.now() - start;
  const rtf = busyMs / 1000 / Math.max(audioS, 0.1);
  postMessage({ type: "events", events, sentAt, audioS, rtf, memory: memory() });
}

function concatenated(blocks) {
  const whole = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let at = 0;
  for (const block of blocks) {
    whole.set(block, at);
    at += block.length;
  }
  return whole;
}

async function download(url, what, report) {
  const response = await fetch(url).catch(() => null);
  if (!response?.ok) {
    const why = response ? `the server answers ${response.status}` : "no answer";
    throw new Error(`${what} ${url} cannot be loaded: ${why}`);
  }
  const pieces = [];
  let numBytes = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    pieces.push(value);
    report((numBytes += value.length));
  }
}
