// An exported model: the step function and the decoder's scores.

import { loadCore } from "./core.js";
import { checkFile, ModelError, NetworkFile, Session } from "./network_file.js";

// Holds only weights. A stream passes in its cache and gets the new one.
export class Model extends NetworkFile {
  static async open(core, bytes, ort, sessionOptions) {
    const model = await super.open(bytes, ort, sessionOptions, "the model", core.ModelMetadata);
    model.contract = core.contract();
    return model;
  }

  #decoder = null; // a promise

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
    checkFile(name, () => core.checkGraph(bytes));
    const { decoderInputs, decoderOutputs } = this.contract;
    return Session.open(this.ort, bytes, this.sessionOptions, name, decoderInputs, decoderOutputs);
  }

  // The state of a stream before its first chunk, as a list of tensors. leftContext: in encoder frames.
  initCache(leftContext) {
    return this.metadata.states(leftContext).map(({ type, shape }) => {
      const size = shape.reduce((a, b) => a * b, 1);
      return type === "int64" ? this.integers(new Int32Array(size), shape) : this.floats(new Float32Array(size), shape);
    });
  }

  // Encodes one chunk. features: Float32Array of (numFrames, 80), numFrames = 4c + 3. Resolves to the Float32Arrays
  // logProbs (c, vocabulary), encoderOut (c, dim) and phoneLogProbs (c, phone tokens) or null, the number c, and the
  // cache for the next chunk.
  async step(features, numFrames, numValid, cache) {
    const [logProbs, encoderOut, ...rest] = await this.run([
      this.floats(features, [1, numFrames, this.contract.numBins]),
      this.integers([numValid], [1]),
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
    const padded = new Int32Array(tokens.length * longest);
    tokens.forEach((row, i) => padded.set(row, i * longest));
    const [scores] = await (await this.#decoder).run([
      this.integers(padded, [tokens.length, longest]),
      this.integers(tokens.map((row) => row.length), [tokens.length]),
      this.floats(encoderOut, [1, numFrames, this.metadata.dim]),
    ]);
    return scores.data;
  }

  async close() {
    await super.close();
    await (await this.#decoder)?.close();
  }
}
