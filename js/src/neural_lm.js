// The neural language model in ONNX Runtime, on typed arrays.

import { GET_ANEW, ModelError, Session } from "./model.js";

// Immutable; any number of streams share one.
export class NeuralLm {
  // Opens a file of `asr export`. Throws ModelError.
  static async open(core, bytes, ort, sessionOptions) {
    const name = "the neural language model";
    let metadata;
    try {
      metadata = new core.NeuralLmMetadata(bytes);
    } catch (error) {
      throw new ModelError(`${name} cannot be used: ${error.message}; ${GET_ANEW}`);
    }
    try {
      const { neuralLmInputs, neuralLmOutputs } = core.contract();
      const session = await Session.open(ort, bytes, sessionOptions, name, neuralLmInputs, neuralLmOutputs);
      return new NeuralLm(ort, metadata, session);
    } catch (error) {
      metadata.delete();
      throw error;
    }
  }

  #ort;
  #session;

  constructor(ort, metadata, session) {
    this.#ort = ort;
    this.metadata = metadata; // of the core
    this.#session = session;
  }

  // The nodes of a tree, Int32Arrays of (numNodes,) each. Resolves to log-probabilities, a Float32Array of (numNodes,).
  async score({ pieces, parents, depths, ends }) {
    const tensor = (data) => new this.#ort.Tensor("int64", BigInt64Array.from(data, BigInt), [data.length]);
    const [{ data }] = await this.#session.run([pieces, parents, depths, ends].map(tensor));
    return data.map((logProb) => Math.min(logProb, 0));
  }

  close() {
    this.metadata.delete();
    return this.#session.close();
  }
}
