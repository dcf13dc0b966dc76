// A network in a file of its own, separate from the model's, in ONNX Runtime.

import { EXPORT_AGAIN, ModelError, Session } from "./model.js";

// Immutable; any number of streams may share one.
export class NetworkFile {
  // Opens the file `name` written by `asr export`. Metadata: a class of the core. inputs, outputs: names. Throws
  // ModelError.
  static async open(bytes, ort, sessionOptions, name, Metadata, inputs, outputs) {
    let metadata;
    try {
      metadata = new Metadata(bytes);
    } catch (error) {
      throw new ModelError(`${name} cannot be used: ${error.message}; ${EXPORT_AGAIN}`);
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
    this.metadata = metadata; // an object of the core
    this.#session = session;
  }

  // tensors: [[data, dims], ...] of integers. Resolves to the outputs, Float32Arrays.
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
