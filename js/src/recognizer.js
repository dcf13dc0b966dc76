// The recognizer: models and options. index.d.ts documents them.

import { loadCore } from "./core.js";
import { checkFile, ModelError, Network, SESSION_OPTIONS } from "./network.js";
import { FILES, read } from "./read.js";
import { Stream } from "./stream.js";

const DEFAULTS = { lm: null, neuralLm: null, punctuation: null, decoder: null, sessionOptions: {} };
const ASSETS = ["model", ...Object.keys(DEFAULTS), "ort"]; // csrc/options.h has the options
const SHARED = ["model", "lm", "neuralLm", "punctuation", "decoder", "ort", "sessionOptions"]; // between variants

export class Recognizer {
  static async load(options) {
    const core = await loadCore();
    const values = checked(core, options);
    newOptions(core, values).delete(); // checks the options before files are read
    const ort = values.ort ? withoutTelemetry(values.ort) : await defaultRuntime();
    const [modelBytes, lmBytes, neuralLmBytes, punctuationBytes, decoderBytes] = await Promise.all(
      Object.entries(FILES).map(([name, what]) =>
        values[name] === null && name !== "model" ? null : read(values[name], what)));
    const sessionOptions = { ...SESSION_OPTIONS, ...values.sessionOptions };
    const opened = { core, lm: lmBytes && openLm(core, lmBytes), metadata: {}, networks: {} };
    const open = (bytes, name, text, Metadata) => openFile(opened, bytes, ort, sessionOptions, name, text, Metadata);
    try {
      if (neuralLmBytes) await open(neuralLmBytes, "neural_lm", "the neural language model", core.NeuralLmMetadata);
      if (punctuationBytes) {
        await open(punctuationBytes, "punctuation", "the punctuation model", core.PunctuationMetadata);
      }
      if (decoderBytes) await open(decoderBytes, "decoder", "the decoder", core.DecoderMetadata);
      await open(modelBytes, "encoder", "the model", core.ModelMetadata);
      const recognizer = new Recognizer(values, opened);
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

  #values;
  #opened;
  #isVariant = false;

  // Applications call `load`. Stream uses the public fields.
  constructor(values, opened) {
    const { core, lm, metadata, networks } = opened;
    this.#values = values;
    this.#opened = opened;
    this.networks = networks; // by the core's name of each
    this.contract = core.contract();
    const options = newOptions(core, values);
    try {
      this.streamOptions = new core.SegmentOptions(
        options, metadata.encoder, lm, metadata.punctuation ?? null, metadata.neural_lm ?? null,
        metadata.decoder ?? null);
    } finally {
      options.delete();
    }
  }

  async withOptions(changes) {
    const shared = SHARED.find((name) => name in changes);
    if (shared) throw new TypeError(`variants of a recognizer share ${shared}; load another recognizer`);
    const variant = new Recognizer(checked(this.#opened.core, { ...this.#values, ...changes }), this.#opened);
    variant.#isVariant = true;
    return variant;
  }

  get language() {
    return this.#opened.metadata.encoder.language;
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

  // The first run of the encoder takes several times as long and must not delay the first words.
  async #warmUp() {
    const { sampleRate, encoderFrameMs } = this.contract;
    const stream = this.stream();
    try {
      await stream.accept(new Float32Array((sampleRate * (this.streamOptions.chunkMs + encoderFrameMs)) / 1000));
    } finally {
      stream.close();
    }
  }
}

async function openFile({ metadata, networks }, bytes, ort, sessionOptions, name, text, Metadata) {
  const read = metadata[name] = checkFile(text, () => new Metadata(bytes));
  const { inputs, outputs } = read;
  const states = read.states && ((leftContext) => read.states(leftContext));
  networks[name] = await Network.open(ort, bytes, sessionOptions, text, { inputs, outputs, states });
}

async function close({ lm, metadata, networks }) {
  lm?.delete();
  for (const read of Object.values(metadata)) read.delete();
  for (const network of Object.values(networks)) await network.close();
}

async function defaultRuntime() {
  const ort = await import("onnxruntime-web/wasm");
  ort.env.wasm.numThreads = 1; // a second thread gains little (docs/lab/speed.md)
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
  if (values.search === "joint") {
    throw new RangeError("search joint is not available in JavaScript, whose ONNX Runtime does not take the decoder's "
      + "state; use search rescore");
  }
  if (values.lm !== null && values.useLm !== false && values.search === "greedy") {
    throw new RangeError("search greedy takes no language model; use search beam or rescore, or no lm");
  }
  if (values.hotwords && values.hotwords.length === 0) delete values.hotwords;
  return values;
}
