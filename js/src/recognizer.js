// The recognizer: a model and how to run it. See index.d.ts for what the options mean.

import { loadCore } from "./core.js";
import { Model, SESSION_OPTIONS } from "./model.js";
import { Punctuation } from "./punctuation.js";
import { read } from "./read.js";
import { Stream } from "./stream.js";

const TEXTS = ["formatted", "plain"];
const SEARCHES = ["greedy", "beam", "rescore"];
const LM_WEIGHTS = ["weight", "wordBonus", "oovPenalty", "priorWeight"];

const DEFAULTS = { lm: null, punctuation: null, lmWeights: {}, search: "rescore", sessionOptions: {} };
const OPTIONS = [
  "model", ...Object.keys(DEFAULTS), "chunkMs", "leftContextMs", "secondPass", "beamSize",
  "silenceAfterSpeechS", "minSilenceAfterSpeechS", "silenceWithoutSpeechS", "maxUtteranceS", "hotwords", "hotwordBoost",
  "phrases", "unknownCost", "text", "mask", "ort",
]; // the defaults of the others stand in csrc/contract.h, and those of chunkMs and leftContextMs in the model file

export class Recognizer {
  static async load(options) {
    const core = await loadCore();
    const contract = core.contract();
    const values = checked(options, contract);
    const ort = values.ort ?? (await defaultRuntime());
    const [modelBytes, lmBytes, punctuationBytes] = await Promise.all([
      read(values.model, "the model"),
      values.lm === null ? null : read(values.lm, "the language model"),
      values.punctuation === null ? null : read(values.punctuation, "the model for punctuation"),
    ]);
    const lm = lmBytes && new core.NgramLm(lmBytes);
    let punctuation = null;
    try {
      if (punctuationBytes) {
        const sessionOptions = { ...SESSION_OPTIONS, ...values.sessionOptions };
        punctuation = await Punctuation.open(core, punctuationBytes, ort, sessionOptions);
      }
      const model = await Model.open(modelBytes, ort, {
        withDecoder: values.search === "rescore", sessionOptions: values.sessionOptions,
      });
      const { tokens, phones, rescoreCtcWeight, defaultChunkSize, defaultLeftContext } = model.metadata;
      const frames = (ms, byDefault) => (ms === undefined ? byDefault : ms / contract.encoderFrameMs);
      const chunkSize = frames(values.chunkMs, defaultChunkSize);
      const leftContext = frames(values.leftContextMs, defaultLeftContext);
      const streamOptions = new core.SegmentOptions({
        ...values, ...lists(values), tokens, phones, rescoreCtcWeight, chunkSize,
      }, lm, punctuation?.metadata ?? null);
      const recognizer = new Recognizer(core, model, punctuation, streamOptions, leftContext);
      await recognizer.#warmUp(chunkSize);
      return recognizer;
    } finally {
      lm?.delete(); // the options keep what they need of these
      punctuation?.metadata.delete();
    }
  }

  #core;
  #model;
  #punctuation;
  #streamOptions;
  #leftContext;

  // Applications call `load`.
  constructor(core, model, punctuation, streamOptions, leftContext) {
    this.#core = core;
    this.#model = model;
    this.#punctuation = punctuation;
    this.#streamOptions = streamOptions;
    this.#leftContext = leftContext;
  }

  stream() {
    return new Stream(new this.#core.Stream(this.#streamOptions), this.#model, this.#punctuation, this.#leftContext);
  }

  async close() {
    this.#streamOptions.delete();
    await this.#model.close();
    await this.#punctuation?.close();
  }

  // The first run takes several times as long: better now than with the first words.
  async #warmUp(chunkSize) {
    const { subsampling, featureOverlap, numBins } = this.#model.contract;
    const numFrames = subsampling * chunkSize + featureOverlap;
    const cache = this.#model.initCache(this.#leftContext);
    await this.#model.step(new Float32Array(numBins * numFrames), numFrames, numFrames, cache);
  }
}

// Lists as the C++ core takes them: one entry a line.
function lists(values) {
  const given = ["hotwords", "phrases", "mask"].filter((name) => values[name]);
  return Object.fromEntries(given.map((name) => [name, values[name].join("\n")]));
}

async function defaultRuntime() {
  const ort = await import("onnxruntime-web/wasm");
  // More threads would need a page that is isolated from others (COOP and COEP headers), which few are.
  ort.env.wasm.numThreads = 1;
  return ort;
}

function checked(options, contract) {
  if (typeof options !== "object" || options === null) {
    throw new TypeError("Recognizer.load takes an object of options, at least {model: url or bytes}");
  }
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) {
      throw new TypeError(`option ${name} is not known: choose among ${OPTIONS.join(", ")}`);
    }
  }
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const values = { ...DEFAULTS, ...Object.fromEntries(given) };
  if (!("model" in values)) throw new TypeError("option model is missing: the URL or the bytes of an .onnx file");
  check(SEARCHES.includes(values.search), "search", values.search, `one of ${SEARCHES.join(", ")}`);
  for (const [name, isRight, allowed] of CHECKS) {
    if (name in values) check(isRight(values[name]), name, values[name], allowed);
  }
  const steps = { chunkMs: contract.encoderFrameMs, leftContextMs: contract.encoderFrameMs, beamSize: 1 };
  for (const [name, range] of Object.entries(contract.options)) {
    if (name in values) checkRange(name, values[name], range, steps[name]);
  }
  if (values.lm !== null && values.search === "greedy") {
    throw new RangeError("search greedy takes no language model; use search beam or rescore, or no lm");
  }
  if (values.hotwords && values.hotwords.length === 0) delete values.hotwords;
  for (const [name, weight] of Object.entries(values.lmWeights)) {
    check(LM_WEIGHTS.includes(name), "lmWeights", name, `made of ${LM_WEIGHTS.join(", ")}`);
    check(Number.isFinite(weight), `lmWeights.${name}`, weight, "a number");
  }
  return values;
}

const isList = (value) => Array.isArray(value) && value.every((entry) => typeof entry === "string");

const CHECKS = [
  ["secondPass", (value) => typeof value === "boolean", "true or false"],
  ["hotwords", isList, "a list of texts"],
  ["phrases", isList, "a list of texts"],
  ["mask", isList, "a list of texts"],
  ["text", (value) => TEXTS.includes(value), `one of ${TEXTS.join(", ")}`],
];

function check(condition, name, value, allowed) {
  if (!condition) throw new RangeError(`${name} is ${JSON.stringify(value)}; it must be ${allowed}`);
}

// step: what the value is a multiple of, or undefined. `range`: of csrc/contract.h.
function checkRange(name, value, { low, withLow, high }, step) {
  const isAbove = withLow ? value >= low : value > low;
  const isRight = typeof value === "number" && isAbove && value <= high && !(value % step);
  const kind = step === 1 ? "a whole number " : step ? `a multiple of ${step} ` : "";
  check(isRight, name, value, `${kind}in ${withLow ? "[" : "("}${low}, ${high}]`);
}
