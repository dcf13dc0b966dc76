// Setup of the demos: SpeechRecognition with the page's models, and silence as the microphone of ?silent.
import "./asr-stream/src/speech_recognition.js";
import "./record.js";

const query = new URLSearchParams(location.search);
window.models = {
  model: "model.onnx", lm: "language.lm", neuralLm: "neural.onnx", punctuation: "punctuation.onnx",
  runtime: { module: "ort/ort.wasm.bundle.min.mjs", wasm: "ort/ort-wasm-simd-threaded.wasm" },
};

// A stream that plays `url` and then silence, or only silence if `url` is null. `play` starts it.
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
if (query.has("silent")) navigator.mediaDevices.getUserMedia = () => window.microphone(null);
window.loaded = query.has("later") ? null : SpeechRecognition.load(window.models);

// One session: recognition with `attributes`, from start to end. begun(recognition, type) is called after `start`,
// with type null, and after each event except the end. Resolves to the events of the session.
window.session = (attributes = {}, begun = () => {}, track = null) => new Promise((resolve) => {
  const recognition = Object.assign(new SpeechRecognition(), attributes);
  for (const type of ["start", "audiostart", "soundstart", "speechstart", "result", "error"]) {
    recognition.addEventListener(type, () => begun(recognition, type));
  }
  recognition.addEventListener("end", () => setTimeout(() => resolve(recognition.seen), 200)); // no later event comes
  recognition.start(track);
  begun(recognition, null);
});

// The name of the error that a function throws or rejects with; null if there is none.
window.thrown = async (task) => {
  try {
    await task();
    return null;
  } catch (error) {
    return error.name;
  }
};
