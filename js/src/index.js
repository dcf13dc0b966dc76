// Streaming speech recognition: see index.d.ts.
export { ModelError } from "./network.js";
export { Recognizer } from "./recognizer.js";
export { StreamError } from "./stream.js";
