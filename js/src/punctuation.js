// The network for case and punctuation in ONNX Runtime, on typed arrays.

import { GET_ANEW, ModelError, Session } from "./model.js";

// Immutable; any number of streams share one.
export class Punctuation {
  // Opens a file of `asr export`. Throws ModelError.
  static async open(core, bytes, ort, sessionOptions) {
    const contract = core.contract();
    const name = "the model for punctuation";
    let metadata;
    try {
      metadata = new core.PunctuationMetadata(bytes);
    } catch (error) {
      throw new ModelError(`${name} cannot be used: ${error.message}; ${GET_ANEW}`);
    }
    try {
      const { punctuationInputs, punctuationOutputs } = contract;
      const session = await Session.open(ort, bytes, sessionOptions, name, punctuationInputs, punctuationOutputs);
      return new Punctuation(ort, contract, metadata, session);
    } catch (error) {
      metadata.delete();
      throw error;
    }
  }

  #ort;
  #contract;
  #session;

  constructor(ort, contract, metadata, session) {
    this.#ort = ort;
    this.#contract = contract;
    this.metadata = metadata; // of the core
    this.#session = session;
  }

  // units: Int32Array of (numUnits, numWordFeatures), pauses: of (numUnits,). Resolves to probabilities, Float32Arrays
  // of (numUnits, marks) and (numUnits, cases).
  async run(units, pauses) {
    const tensor = (data, dims) => new this.#ort.Tensor("int64", BigInt64Array.from(data, BigInt), dims);
    const outputs = await this.#session.run([
      tensor(units, [1, pauses.length, this.#contract.numWordFeatures]), tensor(pauses, [1, pauses.length]),
      tensor([pauses.length], [1]),
    ]);
    return outputs.map(({ data }) => data);
  }

  close() {
    this.metadata.delete();
    return this.#session.close();
  }
}
