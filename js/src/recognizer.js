// The recognizer: models and options. index.d.ts documents them.

import { loadCore } from "./core.js";
import { Model } from "./model.js";
import { ModelError, SESSION_OPTIONS } from "./network_file.js";
import { NeuralLm } from "./neural_lm.js";
import { Punctuation } from "./punctuation.js";
import { FILES, read } from "./read.js";
import { Stream } from "./stream.js";

const DEFAULTS = { lm: null, neuralLm: null, punctuation: null, sessionOptions: {} };
const LISTS = ["hotwords", "phrases", "mask", "replace", "commandList"];
const ASSETS = ["model", ...Object.keys(DEFAULTS), ...LISTS, "ort"]; // csrc/options.h has the options
const SHARED = ["model", "lm", "neuralLm", "punctuation", "ort", "sessionOptions"]; // between variants

export class Recognizer {
  static async load(options) {
    const core = await loadCore();
    const values = checked(core, options);
    newOptions(core, values).delete(); // checks the options before files are read
    const ort = values.ort ? withoutTelemetry(values.ort) : await defaultRuntime();
    const [modelBytes, lmBytes, neuralLmBytes, punctuationBytes] = await Promise.all(
      Object.entries(FILES).map(([name, what]) =>
        values[name] === null && name !== "model" ? null : read(values[name], what)));
    const sessionOptions = { ...SESSION_OPTIONS, ...values.sessionOptions };
    const opened = { core, lm: lmBytes && openLm(core, lmBytes) };
    try {
      if (neuralLmBytes) opened.neuralLm = await NeuralLm.open(core, neuralLmBytes, ort, sessionOptions);
      if (punctuationBytes) opened.punctuation = await Punctuation.open(core, punctuationBytes, ort, sessionOptions);
      opened.model = await Model.open(core, modelBytes, ort, sessionOptions);
      const recognizer = await Recognizer.#made(values, opened);
      await recognizer.#warmUp().catch((error) => {
        recognizer.streamOptions.delete();
        throw error;
      });
      return recognizer;
    } catch (error) {
      await close(opened);
      throw error;
    }
  }

  static async #made(values, opened) {
    const recognizer = new Recognizer(values, opened);
    try {
      if (recognizer.streamOptions.rescores) await opened.model.openDecoder();
    } catch (error) {
      recognizer.streamOptions.delete();
      throw error;
    }
    return recognizer;
  }

  #values;
  #opened;
  #isVariant = false;
  #chunkSize;

  // Applications call `load`. Stream uses the public fields.
  constructor(values, opened) {
    const { core, model, punctuation, lm, neuralLm } = opened;
    this.#values = values;
    this.#opened = opened;
    this.model = model;
    this.punctuation = punctuation;
    this.neuralLm = neuralLm;
    const options = newOptions(core, values), resolved = options.resolve(model.metadata);
    this.#chunkSize = resolved.chunkMs / model.contract.encoderFrameMs;
    this.leftContext = resolved.leftContextMs / model.contract.encoderFrameMs;
    try {
      const given = LISTS.filter((name) => values[name]).map((name) => [name, values[name].join("\n")]);
      this.streamOptions = new core.SegmentOptions(
        options, model.metadata, Object.fromEntries(given), lm, punctuation?.metadata ?? null,
        neuralLm?.metadata ?? null);
    } finally {
      options.delete();
      resolved.delete();
    }
  }

  async withOptions(changes) {
    const shared = SHARED.find((name) => name in changes);
    if (shared) throw new TypeError(`variants of a recognizer share ${shared}; load another recognizer`);
    const variant = await Recognizer.#made(checked(this.#opened.core, { ...this.#values, ...changes }), this.#opened);
    variant.#isVariant = true;
    return variant;
  }

  get language() {
    return this.model.metadata.language;
  }

  get warnings() {
    return this.streamOptions.warnings;
  }

  stream() {
    return new Stream(new this.#opened.core.Stream(this.streamOptions), this);
  }

  async close() {
    this.streamOptions.delete();
    if (!this.#isVariant) await close(this.#opened);
  }

  // The first run of each network takes several times as long and must not delay the first words.
  async #warmUp() {
    const { subsampling, featureOverlap, numBins } = this.model.contract;
    const numFrames = subsampling * this.#chunkSize + featureOverlap;
    const cache = this.model.initCache(this.leftContext);
    await this.model.step(new Float32Array(numBins * numFrames), numFrames, numFrames, cache);
  }
}

async function close({ model, punctuation, lm, neuralLm }) {
  lm?.delete();
  await neuralLm?.close();
  await punctuation?.close();
  await model?.close();
}

async function defaultRuntime() {
  const ort = await import("onnxruntime-web/wasm");
  // More threads would need a cross-origin-isolated page (COOP and COEP headers), which few pages are.
  ort.env.wasm.numThreads = 1;
  return ort;
}

// onnxruntime-node reports to its maker unless this is set before its first session; a value of the user's is kept. The
// WebAssembly reports nothing.
function withoutTelemetry(ort) {
  const environment = globalThis.process?.env;
  if (environment) environment.ORT_DISABLE_TELEMETRY ??= "1";
  return ort;
}

// Returns an Options object of the core, which the caller must delete.
function newOptions(core, values) {
  const options = new core.Options();
  for (const [key, name] of Object.entries(core.contract().options)) {
    if (!(key in values)) continue;
    try {
      options.set(name, values[key]);
    } catch (error) {
      options.delete();
      throw new RangeError(error.message.replace(name, key));
    }
  }
  return options;
}

function openLm(core, bytes) {
  try {
    return new core.NgramLm(bytes);
  } catch ({ message }) {
    throw new ModelError(`the language model: ${message}`);
  }
}

function checked(core, given) {
  if (typeof given !== "object" || given === null) {
    throw new TypeError("Recognizer.load takes an object of options, at least {model: url or bytes}");
  }
  const names = [...ASSETS, ...Object.keys(core.contract().options)];
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new TypeError(`option ${name} is not known: choose among ${names.join(", ")}`);
  }
  const chosen = Object.entries(given).filter(([, value]) => value !== undefined);
  const values = { ...DEFAULTS, ...Object.fromEntries(chosen) };
  if (!("model" in values)) throw new TypeError("option model is missing: the URL or the bytes of an .onnx file");
  for (const name of LISTS.filter((name) => name in values)) {
    const list = values[name];
    if (!Array.isArray(list) || !list.every((entry) => typeof entry === "string")) {
      throw new RangeError(`${name} is ${JSON.stringify(list)}; it must be a list of texts`);
    }
  }
  if (values.search === "joint") {
    throw new RangeError("search joint is not available in JavaScript, whose ONNX Runtime does not take the decoder's "
      + "state; use search rescore");
  }
  if (values.lm !== null && values.search === "greedy") {
    throw new RangeError("search greedy takes no language model; use search beam or rescore, or no lm");
  }
  if (values.hotwords && values.hotwords.length === 0) delete values.hotwords;
  return values;
}
