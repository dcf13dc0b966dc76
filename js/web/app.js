// The page: microphone, captions, figures. Recognition runs in a worker, so that nothing here has to wait for it.

const MODEL = "model.onnx", LM = "language.lm"; // beside this file
const SAMPLE_RATE = 16000;
const NUM_LATENCIES = 20; // the figure shown is the greatest of so many

const $ = (id) => document.getElementById(id);
const worker = new Worker("worker.js", { type: "module" });
let capture = null; // {track, context, node} while the microphone is open
let changing = false; // the microphone is being opened, or the last words are on their way
let latencies = [];

function showStatus(text) {
  $("status").textContent = text;
}

function showError(text) {
  $("error").textContent = text;
  $("error").hidden = !text;
}

// --- loading ---

function load() {
  if (typeof WebAssembly !== "object") {
    showStatus("");
    return showError("This browser has no WebAssembly, which recognition needs: use a newer one, or allow it.");
  }
  worker.onerror = (event) => {
    showStatus("");
    showError(`The recogniser cannot be started: ${event.message ?? "its files are missing"}.`);
  };
  worker.onmessage = ({ data }) => handlers[data.type](data);
  worker.postMessage({ type: "load", model: MODEL, lm: LM });
}

const handlers = {
  progress({ numBytes }) {
    showStatus(`Loading … ${megabytes(numBytes)}`);
  },
  ready({ seconds, memory }) {
    $("loading").textContent = `${seconds.toFixed(1)} s`;
    $("memory").textContent = megabytes(memory);
    $("listen").disabled = false;
    showStatus("Ready.");
    serveOffline();
  },
  failed({ message }) {
    showStatus("");
    showError(`${message[0].toUpperCase()}${message.slice(1)}.`);
    closeMicrophone();
  },
  heard({ events, sentAt, rtf, memory }) {
    events.forEach(showEvent);
    if (events.length) {
      latencies = [...latencies, performance.now() - sentAt].slice(-NUM_LATENCIES);
      $("latency").textContent = `${Math.max(...latencies).toFixed(0)} ms`;
    }
    $("rtf").textContent = rtf.toFixed(2);
    $("memory").textContent = megabytes(memory);
  },
  ended() {
    showStatus("Stopped.");
    $("listen").textContent = "Start listening";
    setChanging(false);
  },
};

function megabytes(numBytes) {
  return `${(numBytes / 1e6).toFixed(0)} MB`;
}

async function serveOffline() {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register("service_worker.js");
    await navigator.serviceWorker.ready;
    $("offline").textContent = "works";
  } catch {
    $("offline").textContent = "not in this browser"; // e.g. a private window; everything else works
  }
}

// --- captions ---

function showEvent(event) {
  if (event.type === "partial") $("partial").textContent = event.text;
  if (event.type === "error") showError(event.text);
  if (event.type === "final") {
    const line = document.createElement("li"), time = document.createElement("time");
    const text = document.createElement("span");
    time.textContent = clock(event.start);
    text.textContent = event.text;
    line.append(time, text);
    $("finals").append(line);
    $("partial").textContent = "";
    $("copy").disabled = false;
  }
  $("captions").scrollTop = $("captions").scrollHeight;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

// --- microphone ---

async function openMicrophone() {
  showError("");
  setChanging(true);
  let stream, context;
  try {
    if (!navigator.mediaDevices) throw new DOMException("", "SecurityError");
    showStatus("Waiting for the microphone …");
    stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false },
    });
    let source;
    try {
      context = new AudioContext({ sampleRate: SAMPLE_RATE });
      source = context.createMediaStreamSource(stream);
    } catch {
      // Some browsers take a microphone at its own rate only; the recogniser resamples.
      await context?.close();
      context = new AudioContext();
      source = context.createMediaStreamSource(stream);
    }
    await context.audioWorklet.addModule("capture.js");
    const node = new AudioWorkletNode(context, "capture", {
      numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit",
    });
    const [track] = stream.getAudioTracks();
    track.onended = () => {
      closeMicrophone();
      showError("The microphone was disconnected: plug it in again, and start again.");
    };
    worker.postMessage({ type: "begin", sampleRate: context.sampleRate });
    node.port.onmessage = ({ data: { samples, peak } }) => {
      $("level").value = peak;
      worker.postMessage({ type: "audio", samples, sentAt: performance.now() }, [samples.buffer]);
    };
    source.connect(node);
    await context.resume();
    capture = { track, context, node };
    latencies = [];
    showStatus("Listening.");
    $("listen").textContent = "Stop listening";
  } catch (error) {
    stream?.getTracks().forEach((track) => track.stop());
    await context?.close();
    showStatus("");
    showError(explain(error));
  }
  setChanging(false);
}

function closeMicrophone() {
  if (!capture) return;
  capture.track.onended = null;
  capture.track.stop();
  capture.node.port.onmessage = null; // nothing may come after the end
  capture.context.close();
  capture = null;
  $("level").value = 0;
  setChanging(true);
  worker.postMessage({ type: "end", sentAt: performance.now() });
}

function explain(error) {
  switch (error.name) {
    case "NotAllowedError":
      return "The microphone may not be used: allow it for this page in the browser's settings, and start again.";
    case "NotFoundError":
      return "There is no microphone: plug one in, and start again.";
    case "NotReadableError":
      return "The microphone cannot be opened: another program may be using it.";
    case "SecurityError":
      return "The microphone is open to secure pages only: use https, or localhost.";
    default:
      return `The microphone cannot be opened: ${error.message}.`;
  }
}

// --- controls ---

// A button that is disabled would lose the focus of the keyboard.
function setChanging(value) {
  changing = value;
  $("listen").setAttribute("aria-disabled", value);
}

$("listen").addEventListener("click", () => {
  if (changing) return;
  if (capture) closeMicrophone();
  else openMicrophone();
});
$("copy").addEventListener("click", async () => {
  const lines = [...$("finals").querySelectorAll("span")].map((span) => span.textContent);
  try {
    await navigator.clipboard.writeText(lines.join("\n"));
    showStatus("Copied.");
  } catch {
    showError("The text cannot be copied here: select it and copy it by hand.");
  }
});

load();
