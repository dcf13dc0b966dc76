// What the demos stand on: SpeechRecognition over the page's models, a recording as the microphone, and a record of
// what they were told.
import "./asr-stream/src/speech_recognition.js";

const query = new URLSearchParams(location.search);
const models = {
  model: "model.onnx",
  ...(!query.has("grammar") && { lm: "language.lm", punctuation: "punctuation.onnx" }), // which no grammar uses
};
const runtime = { module: "ort/ort.wasm.bundle.min.mjs", wasm: "ort/ort-wasm-simd-threaded.wasm" };

// Every event: [type, error, resultIndex, [[transcript, isFinal, number of alternatives, confidence], ...]].
window.events = [];
const dispatch = EventTarget.prototype.dispatchEvent;
SpeechRecognition.prototype.dispatchEvent = function (event) {
  const results = event.results && Array.from(event.results, (result) =>
    [result[0].transcript, result.isFinal, result.length, result.item(0).confidence]);
  (this.seen ??= []).push([event.type, event.error ?? null, event.resultIndex ?? null, results ?? null]);
  window.events.push(this.seen.at(-1));
  return dispatch.call(this, event);
};

// What went to the recognizer, so that another one can hear it too; and how many workers there are.
window.samples = [];
window.numWorkers = 0;
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, transfer) {
  if (message.type === "load") window.numWorkers++;
  if (message.type === "open") window.sampleRate = message.sampleRate;
  if (message.type === "audio") window.samples.push(...message.samples);
  return post.call(this, message, transfer);
};

// A stream that plays `url`, and silence after it; null: silence alone.
window.recording = async (url) => {
  const context = new AudioContext({ sampleRate: 16000 });
  const destination = context.createMediaStreamDestination();
  const source = new AudioBufferSourceNode(context);
  if (url) source.buffer = await context.decodeAudioData(await (await fetch(url)).arrayBuffer());
  else source.buffer = new AudioBuffer({ length: 1, sampleRate: 16000 });
  source.connect(destination);
  source.start();
  return destination.stream;
};
// Whoever listens for the n-th time hears the n-th recording.
const recordings = query.get("microphone")?.split(",") ?? [];
navigator.mediaDevices.getUserMedia = () => window.recording(recordings.shift() ?? null);

window.loaded = query.has("later") ? null : SpeechRecognition.load({ ...models, runtime });
window.models = { ...models, runtime };

// One session: recognition with `attributes`, from start to its end. begun(recognition): called after each event but
// the end. Resolves to its events.
window.session = (attributes = {}, { begun = () => {}, track } = {}) => new Promise((resolve) => {
  const recognition = Object.assign(new SpeechRecognition(), attributes);
  const types = ["start", "audiostart", "soundstart", "speechstart", "result"];
  for (const type of types) recognition.addEventListener(type, () => begun(recognition, type));
  recognition.addEventListener("end", () => setTimeout(() => resolve(recognition.seen), 200)); // nothing comes later
  recognition.start(track);
  begun(recognition, null);
});

// The name of what a function throws, or rejects with.
window.thrown = async (task) => {
  try {
    await task();
    return null;
  } catch (error) {
    return error.name;
  }
};
