// A network beside the model, in a file of its own, in ONNX Runtime.

import { GET_ANEW, ModelError, Session } from "./model.js";

// Immutable; any number of streams share one.
export class NetworkFile {
  // Opens a file of `asr export`, called `name`, with this metadata of the core and these tensors. Throws ModelError.
  static async open(bytes, ort, sessionOptions, name, Metadata, inputs, outputs) {
    let metadata;
    try {
      metadata = new Metadata(bytes);
    } catch (error) {
      throw new ModelError(`${name} cannot be used: ${error.message}; ${GET_ANEW}`);
    }
    try {
      return new this(ort, metadata, await Session.open(ort, bytes, sessionOptions, name, inputs, outputs));
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

  // tensors: [[data, dims], ...] of whole numbers. Resolves to those that the graph gives, Float32Arrays.
  async run(tensors) {
    const outputs = await this.#session.run(
      tensors.map(([data, dims]) => new this.#ort.Tensor("int64", BigInt64Array.from(data, BigInt), dims)));
    return outputs.map(({ data }) => data);
  }

  close() {
    this.metadata.delete();
    return this.#session.close();
  }
}
