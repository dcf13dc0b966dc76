// The recogniser: a model and how to run it. See index.d.ts for what the options mean.

import { loadCore } from "./core.js";
import { Model } from "./model.js";
import { read } from "./read.js";
import { Segment } from "./segment.js";
import { Stream } from "./stream.js";

const ENCODER_FRAME_MS = 40;
const UNSPOKEN_IDS = [0, 1, 2]; // CTC blank, <unk>, end of sentence: in no text
const SEARCHES = ["greedy", "beam", "rescore"];
const LM_WEIGHTS = ["weight", "wordBonus", "oovPenalty", "priorWeight"];

const DEFAULTS = { lm: null, lmWeights: {}, chunkMs: 640, leftContextMs: 2560, search: "rescore", sessionOptions: {} };
const OPTIONS = [
  "model", ...Object.keys(DEFAULTS), "secondPass", "beamSize", "silenceAfterSpeechS", "silenceWithoutSpeechS",
  "maxUtteranceS", "hotwords", "hotwordBoost", "phrases", "unknownCost", "ort",
]; // the defaults of the others stand in csrc/segment.h

export class Recognizer {
  static async load(options) {
    const values = checked(options);
    const ort = values.ort ?? (await defaultRuntime());
    const [core, modelBytes, lmBytes] = await Promise.all([
      loadCore(),
      read(values.model, "the model"),
      values.lm === null ? null : read(values.lm, "the language model"),
    ]);
    const lm = lmBytes && new core.NgramLm(lmBytes);
    try {
      const model = await Model.open(modelBytes, ort, {
        withDecoder: values.search === "rescore", sessionOptions: values.sessionOptions,
      });
      const { tokens, rescoreCtcWeight } = model.metadata;
      const heard = tokens.map((token, id) => (UNSPOKEN_IDS.includes(id) ? "" : token));
      const segmentOptions = new core.SegmentOptions({
        ...values, ...lists(values), tokens: heard, rescoreCtcWeight, chunkSize: values.chunkMs / ENCODER_FRAME_MS,
      }, lm);
      const recognizer = new Recognizer(core, model, segmentOptions, values.leftContextMs / ENCODER_FRAME_MS);
      await recognizer.#warmUp(values.chunkMs / ENCODER_FRAME_MS);
      return recognizer;
    } finally {
      lm?.delete(); // the options keep what they need of it
    }
  }

  #core;
  #model;
  #segmentOptions;
  #leftContext;

  // Applications call `load`.
  constructor(core, model, segmentOptions, leftContext) {
    this.#core = core;
    this.#model = model;
    this.#segmentOptions = segmentOptions;
    this.#leftContext = leftContext;
  }

  stream() {
    return new Stream((startS) => {
      const core = new this.#core.Segment(this.#segmentOptions, startS);
      return new Segment(core, this.#model, this.#leftContext);
    });
  }

  async close() {
    this.#segmentOptions.delete();
    await this.#model.close();
  }

  // The first run takes several times as long: better now than with the first words.
  async #warmUp(chunkSize) {
    const numFrames = 4 * chunkSize + 3;
    const cache = this.#model.initCache(this.#leftContext);
    await this.#model.step(new Float32Array(80 * numFrames), numFrames, numFrames, cache);
  }
}

// Lists as the C++ core takes them: one entry a line.
function lists({ hotwords, phrases }) {
  return { ...(hotwords && { hotwords: hotwords.join("\n") }), ...(phrases && { phrases: phrases.join("\n") }) };
}

async function defaultRuntime() {
  const ort = await import("onnxruntime-web/wasm");
  // More threads would need a page that is isolated from others (COOP and COEP headers), which few are.
  ort.env.wasm.numThreads = 1;
  return ort;
}

function checked(options) {
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
  checkDuration("chunkMs", values.chunkMs, ENCODER_FRAME_MS, 5120);
  checkDuration("leftContextMs", values.leftContextMs, 0, 20480);
  check(SEARCHES.includes(values.search), "search", values.search, `one of ${SEARCHES.join(", ")}`);
  for (const [name, isRight, allowed] of CHECKS) {
    if (name in values) check(isRight(values[name]), name, values[name], allowed);
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

const isWithin = (value, low, high) => typeof value === "number" && value >= low && value <= high;
const isDuration = (value) => isWithin(value, Number.MIN_VALUE, Number.MAX_VALUE);

const isList = (value) => Array.isArray(value) && value.every((entry) => typeof entry === "string");

const CHECKS = [
  ["secondPass", (value) => typeof value === "boolean", "true or false"],
  ["beamSize", (value) => Number.isInteger(value) && isWithin(value, 1, 1024), "a whole number in [1, 1024]"],
  ["silenceAfterSpeechS", isDuration, "a number of seconds > 0"],
  ["silenceWithoutSpeechS", isDuration, "a number of seconds > 0"],
  ["maxUtteranceS", (value) => isWithin(value, Number.MIN_VALUE, 120), "in (0, 120]"],
  ["hotwords", isList, "a list of texts"],
  ["hotwordBoost", (value) => isWithin(value, Number.MIN_VALUE, 20), "in (0, 20]"],
  ["phrases", isList, "a list of texts"],
  ["unknownCost", (value) => isWithin(value, Number.MIN_VALUE, 100), "in (0, 100]"],
];

function check(condition, name, value, allowed) {
  if (!condition) throw new RangeError(`${name} is ${JSON.stringify(value)}; it must be ${allowed}`);
}

function checkDuration(name, value, low, high) {
  const right = Number.isInteger(value) && value % ENCODER_FRAME_MS === 0 && value >= low && value <= high;
  check(right, name, value, `a multiple of ${ENCODER_FRAME_MS} in [${low}, ${high}]`);
}
