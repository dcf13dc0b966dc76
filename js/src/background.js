// One recognizer for the whole page, in a worker, so that the page never waits for it.

import { FILES } from "./read.js";

const SOURCES = Object.keys(FILES);

let chosen = null; // options of the page's recognizer
let loading = null;
let recognizer = null; // null until it has been loaded

// Returns the page's recognizer, which the first call loads. options: those of Recognizer.load except `ort`, plus
// {runtime: {module, wasm}}, the URLs of ONNX Runtime for pages without a bundler. Without options, those of an earlier
// call apply. progress(numBytes, numTotal): called while files are fetched; numTotal is null until the server has said
// how large each is. After a failure, the next call tries again.
export async function load(options, progress) {
  const wanted = options && resolved(options);
  if (loading && wanted && !same(wanted, chosen)) {
    throw new DOMException("this page has loaded other models: one set serves a whole page", "InvalidStateError");
  }
  chosen = wanted ?? chosen;
  if (!chosen) {
    throw new DOMException("no model is known: call SpeechRecognition.load({ model: URL }) first", "InvalidStateError");
  }
  loading ??= start(chosen, progress).then((loaded) => (recognizer = loaded), (error) => {
    loading = null;
    throw error;
  });
  return loading;
}

// Whether pages that request these BCP 47 tags can be served.
export function availability(langs) {
  if (recognizer) return langs.length && langs.every((lang) => recognizer.speaks(lang)) ? "available" : "unavailable";
  if (loading) return "downloading";
  return chosen ? "downloadable" : "unavailable";
}

// A worker would resolve relative URLs against its own file.
function resolved({ runtime, ...options }) {
  const url = (source) => (typeof source === "string" || source instanceof URL
    ? new URL(source, document.baseURI).href : source);
  const sources = SOURCES.filter((name) => options[name]).map((name) => [name, url(options[name])]);
  const files = runtime && { module: url(runtime.module), wasm: url(runtime.wasm) };
  return { ...options, ...Object.fromEntries(sources), ...(files && { runtime: files }) };
}

function same(one, other) {
  return Object.keys({ ...one, ...other }).every((name) => (SOURCES.includes(name)
    ? one[name] === other[name] : JSON.stringify(one[name]) === JSON.stringify(other[name])));
}

function start({ runtime, ...options }, progress) {
  if (typeof WebAssembly !== "object") {
    throw new Error("this browser has no WebAssembly, which recognition needs: use a newer one, or allow it");
  }
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  const ready = new Promise((resolve, reject) => {
    worker.onerror = ({ message }) => {
      reject(new Error(`the recognizer cannot be started: ${message ?? "its files are missing"}`));
    };
    worker.onmessage = ({ data }) => {
      if (data.type === "progress") progress?.(data.numBytes, data.numTotal || null);
      if (data.type === "ready") resolve(new BackgroundRecognizer(worker, options, data));
      if (data.type === "failed") reject(new Error(data.message));
    };
  });
  worker.postMessage({ type: "load", options, runtime });
  return ready.catch((error) => {
    worker.terminate();
    throw error;
  });
}

class BackgroundRecognizer {
  #worker;
  #handlers = new Map(); // handlers of the open streams
  #numStreams = 0;

  constructor(worker, { hotwords = [] }, { language, seconds, memory }) {
    this.#worker = worker;
    this.hotwords = hotwords;
    this.language = language; // a BCP 47 code; "" if the model does not state it
    this.seconds = seconds; // loading time
    this.memory = memory; // in bytes
    worker.onmessage = ({ data: { type, id, ...data } }) => {
      const handlers = this.#handlers.get(id);
      if (type === "ended") this.#handlers.delete(id);
      handlers?.[type]?.(data);
    };
  }

  // Whether a page that requests `lang`, a BCP 47 tag of any region, can be served; "" stands for any language.
  speaks(lang) {
    const languageOf = (tag) => new Intl.Locale(tag).language;
    try {
      return !lang || !this.language || languageOf(lang) === languageOf(this.language);
    } catch {
      return false;
    }
  }

  // Opens a stream of audio at sampleRate. changes: options and lists that differ from the recognizer's. handlers:
  // opened({warnings}), events({events, sentAt, audioS, rtf, memory}), failed({message}), ended(); all except `events`
  // are optional.
  stream(sampleRate, handlers, changes = {}) {
    const id = ++this.#numStreams;
    this.#handlers.set(id, handlers);
    const send = (type, data, transfer) => this.#worker.postMessage({ type, id, ...data }, transfer);
    send("open", { sampleRate, changes });
    return {
      // samples: Float32Array in ±1, whose buffer is transferred. sentAt: returned with the events of this audio.
      accept: (samples, sentAt) => send("audio", { samples, sentAt }, [samples.buffer]),
      // Ends the audio: the last events follow, then `ended`.
      finish: (sentAt) => send("finish", { sentAt }),
      // Closes the stream; no event follows.
      close: () => {
        this.#handlers.delete(id);
        send("close");
      },
    };
  }
}
