// What the demos stand on: SpeechRecognition over the page's models, and recordings as the microphone.
import "./asr-stream/src/speech_recognition.js";
import "./record.js";

const query = new URLSearchParams(location.search);
window.models = {
  model: "model.onnx", lm: "language.lm", neuralLm: "neural.onnx", punctuation: "punctuation.onnx",
  runtime: { module: "ort/ort.wasm.bundle.min.mjs", wasm: "ort/ort-wasm-simd-threaded.wasm" },
};

// A stream that plays `url` and silence after it; null: silence alone. `play` starts it.
window.recording = async (url) => {
  const context = new AudioContext({ sampleRate: 16000 });
  const destination = context.createMediaStreamDestination();
  const source = new AudioBufferSourceNode(context);
  if (url) source.buffer = await context.decodeAudioData(await (await fetch(url)).arrayBuffer());
  else source.buffer = new AudioBuffer({ length: 1, sampleRate: 16000 });
  source.connect(destination);
  return Object.assign(destination.stream, { play: () => source.start() });
};
window.microphone = async (url) => {
  const stream = await window.recording(url);
  stream.play();
  return stream;
};
// The n-th session hears the n-th of these files, and silence when there are no more; without them, the microphone.
if (query.has("recordings")) {
  const recordings = query.get("recordings").split(",");
  navigator.mediaDevices.getUserMedia = () => window.microphone(recordings.shift() || null);
}
window.loaded = query.has("later") ? null : SpeechRecognition.load(window.models);

// One session: recognition with `attributes`, from start to its end. begun(recognition, type): called after `start`,
// with type null, and after each event but the end. Resolves to its events.
window.session = (attributes = {}, begun = () => {}, track = null) => new Promise((resolve) => {
  const recognition = Object.assign(new SpeechRecognition(), attributes);
  for (const type of ["start", "audiostart", "soundstart", "speechstart", "result", "error"]) {
    recognition.addEventListener(type, () => begun(recognition, type));
  }
  recognition.addEventListener("end", () => setTimeout(() => resolve(recognition.seen), 200)); // nothing comes later
  recognition.start(track);
  begun(recognition, null);
});

// The name of what a function throws, or rejects with; null when it does not.
window.thrown = async (task) => {
  try {
    await task();
    return null;
  } catch (error) {
    return error.name;
  }
};
