// An exported model in ONNX Runtime: the step function and the decoder's scores, on typed arrays.

import { loadCore } from "./core.js";

const INPUTS = ["x", "num_valid", "key_cache", "value_cache", "num_frames"];
const OUTPUTS = ["log_probs", "encoder_out", "new_key_cache", "new_value_cache", "new_num_frames"];
const DECODER_INPUTS = ["tokens", "token_lengths", "encoder_out"];
const DECODER_OUTPUTS = ["scores"];

// What the core computes; a model that was trained on anything else cannot be run.
const FRONT_END = {
  sample_rate: "16000",
  num_mel_bins: "80",
  frame_length_ms: "25.0",
  frame_shift_ms: "10.0",
  low_freq: "20.0",
  high_freq: "7600.0",
  preemphasis: "0.97",
  window: "povey",
  snip_edges: "false",
  remove_dc_offset: "true",
  dither: "0.0",
  subsampling: "4",
  feature_overlap: "3",
};
const NUM_BINS = 80;
const SESSION_OPTIONS = { logSeverityLevel: 4 }; // what goes wrong is thrown, not printed
const GET_ANEW = "get the file anew, or write it again with `asr export`";

// A file that is not a usable model.
export class ModelError extends Error {
  name = "ModelError";
}

// {key: value} of an .onnx file that is whole and holds all its weights. Throws ModelError.
function readProperties(core, bytes, name) {
  try {
    return core.readOnnxProperties(bytes);
  } catch (error) {
    throw new ModelError(`${name} is not an ONNX file, or it is damaged: ${error.message}; ${GET_ANEW}`);
  }
}

// Holds weights only; what a stream remembers is the cache it passes in and gets back.
export class Model {
  // Opens an .onnx file of asr-stream. `ort`: the ONNX Runtime. Throws ModelError.
  static async open(bytes, ort, { withDecoder, sessionOptions }) {
    const core = await loadCore();
    const metadata = checkedMetadata(readProperties(core, bytes, "the model"));
    const options = { ...SESSION_OPTIONS, ...sessionOptions };
    const session = await openSession(ort, bytes, options, "the model", INPUTS, OUTPUTS);
    if (!withDecoder) return new Model(ort, metadata, session);
    if (!metadata.decoderOnnx.length) {
      throw new ModelError("this model has no decoder to rescore with; use search 'beam' or export it again");
    }
    readProperties(core, metadata.decoderOnnx, "the model's decoder");
    const decoder = await openSession(
      ort, metadata.decoderOnnx, options, "the model's decoder", DECODER_INPUTS, DECODER_OUTPUTS,
    );
    return new Model(ort, metadata, session, decoder);
  }

  #ort;
  #session;
  #decoder;
  #last = Promise.resolve(); // a session takes one run at a time

  constructor(ort, metadata, session, decoder) {
    this.#ort = ort;
    this.metadata = metadata;
    this.#session = session;
    this.#decoder = decoder;
  }

  // The state of one stream before its first chunk. leftContext: encoder frames of its past.
  initCache(leftContext) {
    const shape = [1, this.metadata.numLayers, leftContext, this.metadata.dim];
    const zeros = () => this.#tensor("float32", new Float32Array(shape.reduce((a, b) => a * b)), shape);
    return [zeros(), zeros(), this.#tensor("int64", new BigInt64Array(1), [1])];
  }

  // One chunk. features: Float32Array of (numFrames, 80), 4c + 3 of them. Resolves to logProbs (c, vocabulary) and
  // encoderOut (c, dim), Float32Arrays, the number c, and the cache for the next chunk.
  async step(features, numFrames, numValid, cache) {
    const inputs = [
      this.#tensor("float32", features, [1, numFrames, NUM_BINS]),
      this.#tensor("int64", BigInt64Array.of(BigInt(numValid)), [1]),
      ...cache,
    ];
    const outputs = await this.#run(this.#session, Object.fromEntries(INPUTS.map((name, i) => [name, inputs[i]])));
    const [logProbs, encoderOut, ...newCache] = OUTPUTS.map((name) => outputs[name]);
    return { logProbs: logProbs.data, encoderOut: encoderOut.data, numFrames: logProbs.dims[1], cache: newCache };
  }

  // Log-probability that the attention decoder gives to whole sentences, a Float32Array. tokens: an array of
  // Int32Arrays without sentence marks. encoderOut: Float32Array of (numFrames, dim).
  async score(tokens, encoderOut, numFrames) {
    const longest = Math.max(1, ...tokens.map((row) => row.length));
    const padded = new BigInt64Array(tokens.length * longest);
    tokens.forEach((row, i) => row.forEach((token, k) => (padded[i * longest + k] = BigInt(token))));
    // Where nothing was heard the decoder attends to one frame of zeros.
    const heard = numFrames ? encoderOut : new Float32Array(this.metadata.dim);
    const outputs = await this.#run(this.#decoder, {
      tokens: this.#tensor("int64", padded, [tokens.length, longest]),
      token_lengths: this.#tensor("int64", BigInt64Array.from(tokens, (row) => BigInt(row.length)), [tokens.length]),
      encoder_out: this.#tensor("float32", heard, [1, Math.max(1, numFrames), this.metadata.dim]),
    });
    return outputs.scores.data;
  }

  async close() {
    await this.#last;
    await this.#session.release();
    await this.#decoder?.release();
  }

  #run(session, inputs) {
    const run = this.#last.then(() => session.run(inputs));
    this.#last = run.catch(() => {});
    return run;
  }

  #tensor(type, data, dims) {
    return new this.#ort.Tensor(type, data, dims);
  }
}

async function openSession(ort, bytes, options, name, inputs, outputs) {
  let session;
  try {
    session = await ort.InferenceSession.create(bytes, options);
  } catch (error) {
    const reason = String(error?.message ?? error).split("\n")[0].slice(0, 200);
    if (/no available backend/.test(reason)) throw new Error(`ONNX Runtime cannot be started: ${reason}`);
    throw new ModelError(`${name} is not an ONNX file, or it is damaged: ${reason}; ${GET_ANEW}`, { cause: error });
  }
  if (String(session.inputNames) !== String(inputs) || String(session.outputNames) !== String(outputs)) {
    throw new ModelError(
      `${name} is none of asr-stream: its graph takes ${session.inputNames.join(", ")} and gives ` +
        `${session.outputNames.join(", ")}; \`asr export\` writes one`,
    );
  }
  return session;
}

// What recognition needs of the metadata that asr/runtime/metadata.py describes.
function checkedMetadata(properties) {
  if (properties.model_type !== "asr_stream") {
    throw new ModelError(
      `metadata key model_type is ${quoted(properties.model_type)}, not "asr_stream": this is no model of ` +
        "asr-stream, or it is cut short; `asr export` writes one",
    );
  }
  if (properties.format_version !== "1") {
    throw new ModelError(
      `metadata key format_version is ${quoted(properties.format_version)}; this release reads 1: update ` +
        "asr-stream, or write the file again with this release's `asr export`",
    );
  }
  const take = (name, isRight, parse) => {
    const text = properties[name];
    if (text === undefined) throw new ModelError(`metadata key ${name} is missing: ${GET_ANEW}`);
    let value;
    try {
      value = parse(text);
    } catch {
      value = undefined;
    }
    if (value === undefined || !isRight(value)) {
      throw new ModelError(`metadata key ${name} is damaged (${quoted(text)}): ${GET_ANEW}`);
    }
    return value;
  };
  for (const [name, computed] of Object.entries(FRONT_END)) {
    const wanted = take(name, () => true, String);
    if (wanted !== computed && Number(wanted) !== Number(computed)) {
      throw new ModelError(`the model needs ${name} = ${quoted(wanted)}; live recognition computes ${computed} only`);
    }
  }
  const isCount = (value) => Number.isSafeInteger(value) && value >= 1;
  return {
    tokens: take("tokens", (t) => t.length >= 4 && t.every(Boolean), (text) => text.split("\n")),
    numLayers: take("num_layers", isCount, Number),
    dim: take("dim", isCount, Number),
    rescoreCtcWeight: take("rescore_ctc_weight", (value) => value >= 0 && value <= 1, Number),
    decoderOnnx: take("decoder_onnx", () => true, fromBase64),
  };
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function quoted(text) {
  return text === undefined ? "missing" : JSON.stringify(text.slice(0, 60));
}
