// Where bytes come from: an array, a URL, or, in Node, a path.

const IN_NODE = typeof process === "object" && Boolean(process.versions?.node);

// The bytes of `source`; `what` it is, for the errors. progress(numBytes): called as they are fetched.
export async function read(source, what, progress) {
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
  const failed = (why, cause) => new Error(`${what} ${source} cannot be loaded: ${why}`, { cause });
  try {
    const response = await fetch(source);
    if (!response.ok) throw failed(`the server answers ${response.status}`);
    return await body(response, progress);
  } catch (error) {
    throw error instanceof TypeError ? failed(error.message, error) : error; // no answer, or it broke off
  }
}

async function body(response, progress) {
  const pieces = [];
  let numBytes = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    pieces.push(value);
    progress?.((numBytes += value.length));
  }
}
