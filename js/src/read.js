// Reads bytes from an array, a URL, or, in Node, a path.

// The files of a recognizer, by the names of their options.
export const FILES = {
  model: "the model", lm: "the language model", neuralLm: "the neural language model",
  punctuation: "the punctuation model", decoder: "the decoder",
};

const IN_NODE = typeof process === "object" && Boolean(process.versions?.node);

// Returns the bytes of `source`; `what` describes it in error messages. report: called with the number of bytes so far
// and that of the file, which is NaN if the server does not say it.
export async function read(source, what, report) {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (typeof source !== "string" && !(source instanceof URL)) {
    throw new TypeError(`${what} is ${source === null ? "null" : typeof source}; expected a URL, a path or bytes`);
  }
  if (IN_NODE && !/^(https?|data|blob):/.test(String(source))) {
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
    const path = String(source).startsWith("file:") ? new URL(source) : source;
    try {
      return new Uint8Array(await readFile(path));
    } catch (error) {
      throw new Error(`${what} ${source} cannot be read: ${error.code ?? error.message}`, { cause: error });
    }
  }
  let response;
  try {
    response = await fetch(source);
  } catch (error) {
    throw new Error(`${what} ${source} cannot be loaded: ${error.message}`, { cause: error });
  }
  if (!response.ok) throw new Error(`${what} ${source} cannot be loaded: the server answers ${response.status}`);
  if (!report) return new Uint8Array(await response.arrayBuffer());
  // The length of a compressed body is not that of the file.
  const total = response.headers.has("content-encoding") ? NaN : Number(response.headers.get("content-length") ?? NaN);
  const pieces = [];
  let numBytes = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    pieces.push(value);
    report((numBytes += value.length), total);
  }
}
