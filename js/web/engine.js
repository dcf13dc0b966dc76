// Recognition in the browser: by a worker, so that the page never has to wait for it. In place of the server's
// engine.js, see app.js.

import { load } from "./asr-stream/src/background.js";

const MODELS = { // beside this file
  model: "model.onnx", lm: "language.lm", neuralLm: "neural.onnx", punctuation: "punctuation.onnx",
  runtime: { module: "ort/ort.wasm.bundle.min.mjs", wasm: "ort/ort-wasm-simd-threaded.wasm" },
};

export const FIGURES = [
  ["rtf", "Real-time factor"], ["memory", "Memory"], ["loading", "Loaded in"], ["offline", "Without a network"],
];

export function createEngine(page) {
  let recognizer, stream, sampleRate, sentS, recognizedS;
  const handlers = {
    events({ events, sentAt, audioS, rtf, memory }) {
      recognizedS = audioS;
      page.show(events, sentAt);
      page.figure("rtf", rtf.toFixed(2));
      page.figure("memory", megabytes(memory));
    },
    failed: ({ message }) => page.failed(sentence(message)),
    ended: () => page.ended(),
  };
  return {
    get behindS() {
      return sentS - recognizedS;
    },
    async load() {
      page.figure("offline", "not yet");
      try {
        recognizer = await load(MODELS, (numBytes, numTotal) => {
          const opening = numBytes === numTotal;
          page.status(opening ? "Opening the models …" : `Loading … ${megabytes(numBytes)}`,
            opening || !numTotal ? null : numBytes / numTotal);
        });
      } catch (error) {
        throw new Error(sentence(error.message), { cause: error });
      }
      page.figure("loading", `${recognizer.seconds.toFixed(1)} s`);
      page.figure("memory", megabytes(recognizer.memory));
      serveOffline(page);
    },
    begin(rate) {
      sampleRate = rate;
      sentS = recognizedS = 0;
      stream = recognizer.stream(rate, handlers);
      page.status("Listening.");
    },
    audio(samples, sentAt) {
      sentS += samples.length / sampleRate;
      stream.accept(samples, sentAt);
    },
    end() {
      stream.finish(performance.now());
    },
  };
}

const sentence = (message) => `${message[0].toUpperCase()}${message.slice(1)}.`;
const megabytes = (numBytes) => `${(numBytes / 1e6).toFixed(0)} MB`;

async function serveOffline(page) {
  try {
    const options = { updateViaCache: "none" };
    const { installing } = await navigator.serviceWorker.register("service_worker.js", options);
    const failed = new Promise((_, reject) => installing?.addEventListener("statechange", () => {
      if (installing.state === "redundant") reject(new Error("not all files of the page can be kept"));
    }));
    await Promise.race([navigator.serviceWorker.ready, failed]); // without a worker, `ready` never settles
    page.figure("offline", "works");
  } catch {
    page.figure("offline", "not in this browser"); // e.g. a private window; everything else works
  }
}
