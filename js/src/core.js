// The C++ core (csrc/core.cc) as WebAssembly: one for the whole program.

import createCore from "../dist/asr_stream_core.mjs";
import { read } from "./read.js";

let core;

// The instance; made with the first call.
export function loadCore() {
  core ??= start();
  return core;
}

async function start() {
  if (typeof WebAssembly !== "object") {
    throw new Error("there is no WebAssembly here, which recognition needs: use a newer browser, or allow it");
  }
  const wasmBinary = await read(new URL("../dist/asr_stream_core.wasm", import.meta.url), "the program");
  return createCore({ wasmBinary });
}
