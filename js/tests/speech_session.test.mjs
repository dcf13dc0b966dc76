// Tests the sessions of SpeechRecognition without a browser: a worker and a microphone that the test controls.
import assert from "node:assert/strict";
import { test } from "node:test";

class Node extends EventTarget {
  port = {};
  audioWorklet = { addModule: async () => {} };
  sampleRate = 16000;
  createMediaStreamSource = () => ({ connect() {} });
  resume() {}
  async close() {}
}

test("a microphone lost at the start is an error", { timeout: 10_000 }, async () => {
  const track = { stop() {} };
  let opened;
  const opening = new Promise((resolve) => (opened = resolve));
  class FakeWorker {
    postMessage({ type }) {
      if (type === "load") queueMicrotask(() => this.onmessage({ data: { type: "ready", language: "en" } }));
      if (type === "open") opened();
    }
  }
  const mediaDevices = { getUserMedia: async () => ({ getAudioTracks: () => [track] }) };
  Object.assign(globalThis, {
    Worker: FakeWorker, AudioContext: Node, AudioWorkletNode: Node, document: { baseURI: "http://localhost/" },
  });
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices } });
  const { load } = await import("../src/background.js");
  const { Session } = await import("../src/speech_session.js");
  await load({ model: "model.onnx" });

  const events = [];
  await new Promise((resolve) => {
    new Session({ lang: "en", grammars: [], phrases: [] }, (event) => {
      events.push(event.error ?? event.type);
      if (event.type === "end") resolve();
    });
    opening.then(() => setTimeout(() => track.onended()));
  });
  assert.deepEqual(events, ["audio-capture", "end"]);
});
