// Passes on the microphone's audio in blocks, which capture.js collects outside the page's thread.

const SAMPLE_RATE = 16000;

export class Microphone {
  #block;
  #lost;
  #open = null; // {isOurs, track, context, source, node}

  // block(samples, peak): called with each block, a Float32Array, and the displayed peak.
  // lost(): called when the device is disconnected, or the page has stopped its track.
  constructor({ block, lost }) {
    this.#block = block;
    this.#lost = lost;
  }

  // Resolves to the sample rate. Rejects with an error that `explain` turns into a sentence, and with AbortError if
  // `close` was called meanwhile. deviceId: "" for the default one. given: a track of the page instead of a microphone;
  // it stays open.
  async open(deviceId, given = null) {
    if (!given && !navigator.mediaDevices) throw new DOMException("", "SecurityError");
    const open = (this.#open = { isOurs: !given });
    // Not a clone, which would still record after the page has disabled or stopped its track.
    const stream = given ? new MediaStream([given]) : await microphoneStream(deviceId);
    [open.track] = stream.getAudioTracks();
    this.#checkOpen(open);
    const connect = (options) => {
      open.context = new AudioContext(options);
      open.source = open.context.createMediaStreamSource(stream);
    };
    try {
      connect({ sampleRate: SAMPLE_RATE });
    } catch {
      // Some browsers take a microphone at its own rate only; the recognizer resamples.
      open.context?.close();
      connect();
    }
    await open.context.audioWorklet.addModule(new URL("./capture.js", import.meta.url));
    this.#checkOpen(open);
    open.node = new AudioWorkletNode(open.context, "capture", {
      numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit",
    });
    return open.context.sampleRate;
  }

  // Called after each await. If `close` was called meanwhile, it could not stop a track that did not exist yet.
  #checkOpen(open) {
    if (this.#open === open) return;
    if (open.isOurs) open.track.stop();
    throw new DOMException("it was closed", "AbortError");
  }

  start() {
    const { track, context, source, node } = this.#open;
    track.addEventListener("ended", this.#lost);
    node.port.onmessage = ({ data: { samples, peak } }) => {
      // There is no event when the page stops its track, and blocks of silence still come.
      if (track.readyState === "ended") this.#lost();
      else this.#block(samples, peak);
    };
    source.connect(node);
    context.resume();
  }

  // No block comes from now on.
  async close() {
    const { isOurs, track, context, node } = this.#open ?? {};
    this.#open = null;
    track?.removeEventListener("ended", this.#lost);
    if (isOurs) track?.stop();
    if (node) node.port.onmessage = null;
    await context?.close();
  }
}

async function microphoneStream(deviceId) {
  // The recognizer was trained on speech as it is. Chromium turns gain control off with echo cancellation, Firefox does
  // not.
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  if (deviceId) {
    try {
      return await navigator.mediaDevices.getUserMedia({ audio: { ...audio, deviceId: { exact: deviceId } } });
    } catch (error) {
      if (error.name !== "OverconstrainedError") throw error; // else it was unplugged since
    }
  }
  return navigator.mediaDevices.getUserMedia({ audio });
}

export function explain(error) {
  switch (error.name) {
    case "NotAllowedError":
      return "The microphone is blocked: allow it for this page in the browser's settings, and start again.";
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
