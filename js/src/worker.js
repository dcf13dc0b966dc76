// The recognizer, outside the page's own thread. background.js communicates with it.
//
// Receives {type: "load", options, runtime}, then, for any number of streams, {type: "open", id, sampleRate, changes},
// {type: "audio", id, samples, sentAt}, {type: "finish", id, sentAt} and {type: "close", id}. Sends {type: "progress" |
// "ready" | "failed" | "opened" | "events" | "ended", ...}.

import { Recognizer } from "./index.js";
import { FILES, read } from "./read.js";

// Recognition memory is WebAssembly memory: models, runtime, state.
const memories = [];
WebAssembly.Memory = class extends WebAssembly.Memory {
  constructor(descriptor) {
    super(descriptor);
    memories.push(this);
  }
};
const memory = () => memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);

let recognizer;
const sessions = new Map();
let last = Promise.resolve();

async function load({ options, runtime }) {
  const start = performance.now();
  const ort = runtime && (await import(/* webpackIgnore: true */ /* @vite-ignore */ runtime.module));
  if (ort) {
    ort.env.wasm.numThreads = 1; // a second thread gains little (docs/lab/speed.md)
    ort.env.wasm.wasmPaths = { wasm: runtime.wasm };
  }
  const names = Object.keys(FILES).filter((name) => typeof options[name] === "string");
  const counts = Object.fromEntries(names.map((name) => [name, [0, NaN]])); // of bytes: fetched, in all
  const fetched = (name) => (count, total) => {
    counts[name] = [count, total];
    const [numBytes, numTotal] = [0, 1].map((i) => Object.values(counts).reduce((sum, each) => sum + each[i], 0));
    postMessage({ type: "progress", numBytes, numTotal });
  };
  const files = await Promise.all(
    names.map(async (name) => [name, await read(options[name], FILES[name], fetched(name))]));
  recognizer = await Recognizer.load({ ...options, ...Object.fromEntries(files), ...(ort && { ort }) });
  const { language } = recognizer;
  postMessage({ type: "ready", language, seconds: (performance.now() - start) / 1000, memory: memory() });
}

// One stream, and the samples queued for it.
class Session {
  #id;
  #stream;
  #variant = null;
  #sampleRate;
  #busyMs = 0;
  #audioS = 0;
  #waiting = []; // samples that arrived while others were being recognized

  constructor({ id, sampleRate }) {
    this.#id = id;
    this.#sampleRate = sampleRate;
  }

  add(samples) {
    this.#waiting.push(samples);
  }

  async open({ changes }) {
    if (Object.keys(changes).length) this.#variant = await recognizer.withOptions(changes);
    const chosen = this.#variant ?? recognizer;
    this.#stream = chosen.stream();
    const warnings = chosen.warnings.filter((text) => !recognizer.warnings.includes(text)); // of the changes
    postMessage({ type: "opened", id: this.#id, warnings });
  }

  async audio({ sentAt }) {
    const blocks = this.#waiting.splice(0);
    if (!blocks.length || !this.#stream) return; // processed together with an earlier one, or never opened
    const samples = concatenated(blocks);
    this.#audioS += samples.length / this.#sampleRate;
    await this.#run(() => this.#stream.accept(samples, this.#sampleRate), sentAt);
  }

  async finish({ sentAt }) {
    try {
      await this.#run(async () => (await this.#stream?.finish()) ?? [], sentAt);
    } catch ({ message }) {
      postMessage({ type: "failed", id: this.#id, message }); // before `ended`, which is the last message
    }
    await this.close();
    postMessage({ type: "ended", id: this.#id });
  }

  async close() {
    sessions.delete(this.#id);
    this.#stream?.close();
    await this.#variant?.close();
    this.#variant = null;
  }

  async #run(task, sentAt) {
    const start = performance.now();
    let events, failure;
    try {
      events = await task();
    } catch (error) {
      failure = error;
      events = error.events ?? [];
    }
    this.#busyMs += performance.now() - start;
    const rtf = this.#busyMs / 1000 / Math.max(this.#audioS, 0.1);
    postMessage({ type: "events", id: this.#id, events, sentAt, audioS: this.#audioS, rtf, memory: memory() });
    if (failure) throw failure;
  }
}

onmessage = ({ data }) => {
  const { type, id } = data;
  if (type === "open") sessions.set(id, new Session(data));
  const session = sessions.get(id);
  if (type === "audio") session?.add(data.samples);
  if (type === "close") sessions.delete(id); // queued audio is not recognized
  last = last.then(async () => {
    if (type === "load") await load(data);
    else if (type === "close" || sessions.has(id)) await session?.[type](data);
  }).catch((error) => postMessage({ type: "failed", id, message: error.message }));
};

function concatenated(blocks) {
  const whole = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let at = 0;
  for (const block of blocks) {
    whole.set(block, at);
    at += block.length;
  }
  return whole;
}
