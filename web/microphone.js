// The microphone: collects blocks of audio outside of the page's own thread (capture.js).

const SAMPLE_RATE = 16000;

export class Microphone {
  #block;
  #lost;
  #open = null; // {track, context, source, node}

  // block(samples, peak): called with each block, a Float32Array and its peak; lost(): the device was disconnected.
  constructor({ block, lost }) {
    this.#block = block;
    this.#lost = lost;
  }

  // Resolves to the sample rate; rejects with an error for `explain`. deviceId: "" for the default device.
  async open(deviceId) {
    if (!navigator.mediaDevices) throw new DOMException("", "SecurityError");
    const stream = await microphoneStream(deviceId);
    const [track] = stream.getAudioTracks();
    this.#open = { track };
    let context, source;
    try {
      context = new AudioContext({ sampleRate: SAMPLE_RATE });
      source = context.createMediaStreamSource(stream);
    } catch {
      // Some browsers open a microphone only at its own rate; the recognizer resamples.
      await context?.close();
      context = new AudioContext();
      source = context.createMediaStreamSource(stream);
    }
    Object.assign(this.#open, { context, source });
    await context.audioWorklet.addModule("capture.js");
    const node = new AudioWorkletNode(context, "capture", {
      numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit",
    });
    this.#open.node = node;
    return context.sampleRate;
  }

  start() {
    const { track, context, source, node } = this.#open;
    track.onended = () => this.#lost();
    node.port.onmessage = ({ data: { samples, peak } }) => this.#block(samples, peak);
    source.connect(node);
    context.resume();
  }

  // No more blocks come after this call.
  async close() {
    const { track, context, node } = this.#open ?? {};
    this.#open = null;
    if (track) track.onended = null;
    track?.stop();
    if (node) node.port.onmessage = null;
    await context?.close();
  }
}

async function microphoneStream(deviceId) {
  // The recognizer was trained on unprocessed speech. Chromium turns off gain control together with echo cancellation,
  // Firefox does not.
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  if (deviceId) {
    try {
      return await navigator.mediaDevices.getUserMedia({ audio: { ...audio, deviceId: { exact: deviceId } } });
    } catch (error) {
      if (error.name !== "OverconstrainedError") throw error; // otherwise it was unplugged since then
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
      return "Browsers allow the microphone only on secure pages: use https, or localhost.";
    default:
      return `The microphone cannot be opened: ${error.message}.`;
  }
}
