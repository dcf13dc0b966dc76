// An exported model in ONNX Runtime: the step function and the decoder's scores, on typed arrays.

import { loadCore } from "./core.js";

export const SESSION_OPTIONS = { logSeverityLevel: 4 }; // errors are thrown, not printed
export const EXPORT_AGAIN = "get the file again, or write it again with `asr export`";

// A file that is not a usable model.
export class ModelError extends Error {
  name = "ModelError";
}

// Returns the result of `check` for an .onnx file, which must be complete and contain its weights. Throws ModelError.
function checkFile(name, check) {
  try {
    return check();
  } catch (error) {
    const { message } = error;
    if (message.startsWith("metadata key") || message.startsWith("it is not a")) {
      throw new ModelError(`${name}: ${message}`);
    }
    throw new ModelError(`${name} is not an ONNX file, or it is damaged: ${message}; ${EXPORT_AGAIN}`);
  }
}

// Holds only weights. A stream passes in its cache and gets the new one.
export class Model {
  // Opens an .onnx file of asr-stream. `ort`: the ONNX Runtime. Throws ModelError.
  static async open(bytes, ort, sessionOptions) {
    const core = await loadCore();
    const contract = core.contract();
    const metadata = checkFile("the model", () => new core.ModelMetadata(bytes));
    const { encoderInputs, encoderOutputs } = metadata;
    try {
      const session = await Session.open(ort, bytes, sessionOptions, "the model", encoderInputs, encoderOutputs);
      return new Model(ort, sessionOptions, contract, metadata, session);
    } catch (error) {
      metadata.delete();
      throw error;
    }
  }

  #ort;
  #session;
  #sessionOptions;
  #decoder = null; // a promise

  constructor(ort, sessionOptions, contract, metadata, session) {
    this.#ort = ort;
    this.#sessionOptions = sessionOptions;
    this.contract = contract;
    this.metadata = metadata; // an object of the core
    this.#session = session;
  }

  // Must be called before the first `score`. Throws ModelError for a model without a decoder.
  async openDecoder() {
    this.#decoder ??= this.#openDecoder().catch((error) => {
      this.#decoder = null;
      throw error;
    });
    await this.#decoder;
  }

  async #openDecoder() {
    const core = await loadCore();
    const bytes = this.metadata.decoderOnnx, name = "the model's decoder";
    if (!bytes.length) {
      throw new ModelError("this model has no decoder for rescoring; use search 'beam'");
    }
    checkFile(name, () => core.checkOnnx(bytes));
    const { decoderInputs, decoderOutputs } = this.contract;
    return Session.open(this.#ort, bytes, this.#sessionOptions, name, decoderInputs, decoderOutputs);
  }

  // The state of a stream before its first chunk, as a list of tensors. leftContext: in encoder frames.
  initCache(leftContext) {
    return this.metadata.states(leftContext).map(({ type, shape }) => {
      const size = shape.reduce((a, b) => a * b, 1);
      return this.#tensor(type, type === "int64" ? new BigInt64Array(size) : new Float32Array(size), shape);
    });
  }

  // Encodes one chunk. features: Float32Array of (numFrames, 80), numFrames = 4c + 3. Resolves to the Float32Arrays
  // logProbs (c, vocabulary), encoderOut (c, dim) and phoneLogProbs (c, phone tokens) or null, the number c, and the
  // cache for the next chunk.
  async step(features, numFrames, numValid, cache) {
    const [logProbs, encoderOut, ...rest] = await this.#session.run([
      this.#tensor("float32", features, [1, numFrames, this.contract.numBins]),
      this.#tensor("int64", BigInt64Array.of(BigInt(numValid)), [1]),
      ...cache,
    ]);
    return {
      logProbs: logProbs.data, encoderOut: encoderOut.data, phoneLogProbs: rest[cache.length]?.data ?? null,
      numFrames: logProbs.dims[1], cache: rest.slice(0, cache.length),
    };
  }

  // Log-probabilities of complete sentences from the attention decoder, as a Float32Array. tokens: an array of
  // Int32Arrays without SOS and EOS. encoderOut: Float32Array of (numFrames, dim).
  async score(tokens, encoderOut, numFrames) {
    const longest = Math.max(1, ...tokens.map((row) => row.length));
    const padded = new BigInt64Array(tokens.length * longest);
    tokens.forEach((row, i) => row.forEach((token, k) => (padded[i * longest + k] = BigInt(token))));
    const [scores] = await (await this.#decoder).run([
      this.#tensor("int64", padded, [tokens.length, longest]),
      this.#tensor("int64", BigInt64Array.from(tokens, (row) => BigInt(row.length)), [tokens.length]),
      this.#tensor("float32", encoderOut, [1, numFrames, this.metadata.dim]),
    ]);
    return scores.data;
  }

  async close() {
    this.metadata.delete();
    await this.#session.close();
    await (await this.#decoder)?.close();
  }

  #tensor(type, data, dims) {
    return new this.#ort.Tensor(type, data, dims);
  }
}

// A graph that is ready to run. Its tensors are in the order of their names in csrc/contract.h.
export class Session {
  // Checks that the graph needs exactly these inputs, and that its first outputs are these. Throws ModelError, with
  // `name` in its message.
  static async open(ort, bytes, options, name, inputs, outputs) {
    let session;
    try {
      // Memory patterns would allocate one block per run: many utterance lengths leave gaps.
      session = await ort.InferenceSession.create(bytes, { enableMemPattern: false, ...options });
    } catch (error) {
      const reason = String(error?.message ?? error).split("\n")[0].slice(0, 200);
      if (/no available backend/.test(reason)) throw new Error(`ONNX Runtime cannot be started: ${reason}`);
      throw new ModelError(`${name} is not an ONNX file, or it is damaged: ${reason}; ${EXPORT_AGAIN}`, {
        cause: error,
      });
    }
    const found = session.outputNames.slice(0, outputs.length);
    if (String(session.inputNames) !== String(inputs) || String(found) !== String(outputs)) {
      await session.release();
      throw new ModelError(
        `${name} is not an asr-stream model: its graph takes ${session.inputNames.join(", ")} and gives ` +
          `${session.outputNames.join(", ")}; \`asr export\` writes one`,
      );
    }
    return new Session(session, inputs, outputs);
  }

  #session;
  #inputs;
  #outputs;
  #last = Promise.resolve(); // ONNX Runtime supports one run at a time

  constructor(session, inputs, outputs) {
    this.#session = session;
    this.#inputs = inputs;
    this.#outputs = outputs;
  }

  // Resolves to the output tensors for these inputs.
  async run(tensors) {
    const run = this.#last.then(() =>
      this.#session.run(Object.fromEntries(tensors.map((tensor, i) => [this.#inputs[i], tensor]))));
    this.#last = run.catch(() => {});
    const found = await run;
    return this.#outputs.map((name) => found[name]);
  }

  async close() {
    await this.#last;
    await this.#session.release();
  }
}
