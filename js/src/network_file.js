// A network of an .onnx file in ONNX Runtime, on typed arrays.

export const SESSION_OPTIONS = { logSeverityLevel: 4 }; // errors are thrown, not printed
const EXPORT_AGAIN = "get the file again, or write it again with `asr export`";

// A file that is not a usable model.
export class ModelError extends Error {
  name = "ModelError";
}

// Returns the result of `check` for an .onnx file, which must be complete and contain its weights. Throws ModelError.
export function checkFile(name, check) {
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

// Immutable; any number of streams may share one.
export class NetworkFile {
  // Opens the file `name` written by `asr export`. Metadata: a class of the core. Throws ModelError.
  static async open(bytes, ort, sessionOptions, name, Metadata) {
    const metadata = checkFile(name, () => new Metadata(bytes));
    try {
      const { inputs, outputs } = metadata;
      const session = await Session.open(ort, bytes, sessionOptions, name, inputs, outputs);
      return new this(ort, sessionOptions, metadata, session);
    } catch (error) {
      metadata.delete();
      throw error;
    }
  }

  #session;

  constructor(ort, sessionOptions, metadata, session) {
    this.ort = ort;
    this.sessionOptions = sessionOptions;
    this.metadata = metadata; // an object of the core
    this.#session = session;
  }

  // Takes and resolves to tensors.
  run(tensors) {
    return this.#session.run(tensors);
  }

  floats(data, dims) {
    return new this.ort.Tensor("float32", data, dims);
  }

  integers(data, dims) {
    return new this.ort.Tensor("int64", BigInt64Array.from(data, BigInt), dims);
  }

  async close() {
    this.metadata.delete();
    await this.#session.close();
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
