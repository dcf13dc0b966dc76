// Recognition in the browser, in a worker, so that the page never waits. Replaces the server's engine.js, see app.js.

const MODEL = "model.onnx", LM = "language.lm", PUNCTUATION = "punctuation.onnx"; // in this file's folder
const NEURAL_LM = "neural.onnx";

export const FIGURES = [
  ["rtf", "Real-time factor"], ["memory", "Memory"], ["loading", "Loaded in"], ["offline", "Without a network"],
];

export function createEngine(page) {
  const worker = new Worker("worker.js", { type: "module" });
  let sampleRate, sentS, recognizedS;
  return {
    get behindS() {
      return sentS - recognizedS;
    },
    async load() {
      if (typeof WebAssembly !== "object") {
        throw new Error("This browser has no WebAssembly, which recognition needs: use a newer one, or allow it.");
      }
      page.figure("offline", "not yet");
      await new Promise((resolve, reject) => {
        worker.onerror = (event) => {
          reject(new Error(`The recognizer cannot be started: ${event.message ?? "its files are missing"}.`));
        };
        worker.onmessage = ({ data }) => {
          if (data.type === "ready") resolve();
          if (data.type === "failed") reject(new Error(sentence(data.message)));
          recognizedS = data.audioS ?? recognizedS;
          handle(page, data);
        };
        worker.postMessage({ type: "load", model: MODEL, lm: LM, neuralLm: NEURAL_LM, punctuation: PUNCTUATION });
      });
      serveOffline(page);
    },
    begin(rate) {
      sampleRate = rate;
      sentS = recognizedS = 0;
      worker.postMessage({ type: "begin", sampleRate });
      page.status("Listening.");
    },
    audio(samples, sentAt) {
      sentS += samples.length / sampleRate;
      worker.postMessage({ type: "audio", samples, sentAt }, [samples.buffer]);
    },
    end() {
      worker.postMessage({ type: "end", sentAt: performance.now() });
    },
  };
}

function handle(page, { type, ...data }) {
  if (type === "progress") page.status(`Loading … ${megabytes(data.numBytes)}`);
  if (type === "ready") page.figure("loading", `${data.seconds.toFixed(1)} s`);
  if (type === "failed") page.failed(sentence(data.message));
  if (type === "events") {
    page.show(data.events, data.sentAt);
    page.figure("rtf", data.rtf.toFixed(2));
  }
  if (data.memory) page.figure("memory", megabytes(data.memory));
  if (type === "ended") page.ended();
}

const sentence = (message) => `${message[0].toUpperCase()}${message.slice(1)}.`;
const megabytes = (numBytes) => `${(numBytes / 1e6).toFixed(0)} MB`;

async function serveOffline(page) {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register("service_worker.js");
    await navigator.serviceWorker.ready;
    page.figure("offline", "works");
  } catch {
    page.figure("offline", "not in this browser"); // e.g. a private window; everything else works
  }
}
