// A network in ONNX Runtime: an open graph, which does the work of streams (csrc/work.h).

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
export class Network {
  // bytes: of the ONNX file `name`. states: returns the type, shape and name of each state, for a left context.
  // Checks that the graph needs exactly these inputs, and that its first outputs are these. Throws ModelError, with
  // `name` in its message.
  static async open(ort, bytes, options, name, { inputs, outputs, states = () => [] }) {
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
    return new Network(ort, session, states);
  }

  #ort;
  #session;
  #states;
  #stateNames;
  #last = Promise.resolve(); // ONNX Runtime supports one run at a time

  constructor(ort, session, states) {
    this.#ort = ort;
    this.#session = session;
    this.#states = states;
    this.#stateNames = states(0).map(({ name }) => name);
  }

  // Does `work` of the core. Resolves to the outputs, {data, shape} each. states: a Map of the stream's states by slot,
  // which is updated.
  async run({ inputs, outputs, state }, states) {
    const feeds = {};
    for (const input of inputs) feeds[input.name] = this.#tensor(input);
    if (state) Object.assign(feeds, state.begins ? this.#initial(state.leftContext) : states.get(state.slot));
    const run = this.#last.then(() => this.#session.run(feeds));
    this.#last = run.catch(() => {});
    const found = await run;
    if (state?.keeps) {
      states.set(state.slot, Object.fromEntries(this.#stateNames.map((name) => [name, found[`new_${name}`]])));
    } else if (state) {
      states.delete(state.slot);
    }
    return outputs.map((name) => ({ data: found[name].data, shape: found[name].dims }));
  }

  #initial(leftContext) {
    const zeros = ({ name, type, shape }) => {
      const data = new (type === "int64" ? Int32Array : Float32Array)(shape.reduce((a, b) => a * b, 1));
      return [name, this.#tensor({ type, data, shape })];
    };
    return Object.fromEntries(this.#states(leftContext).map(zeros));
  }

  #tensor({ type, data, shape }) {
    return new this.#ort.Tensor(type, type === "int64" ? BigInt64Array.from(data, BigInt) : data, shape);
  }

  async close() {
    await this.#last;
    await this.#session.release();
  }
}
