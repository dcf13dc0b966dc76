// The C++ core (js/csrc/core.cc) as WebAssembly, one instance for the whole program.

import createCore from "../dist/asr_stream_core.mjs";
import { read } from "./read.js";

let core;

// Returns the instance, which the first call creates.
export function loadCore() {
  core ??= start().catch((error) => {
    core = undefined; // the next call tries again, for example after a failed download
    throw error;
  });
  return core;
}

async function start() {
  if (typeof WebAssembly !== "object") {
    throw new Error("WebAssembly is missing, which recognition needs: use a newer browser, or allow it");
  }
  const wasmBinary = await read(new URL("../dist/asr_stream_core.wasm", import.meta.url), "the program");
  return createCore({ wasmBinary });
}
