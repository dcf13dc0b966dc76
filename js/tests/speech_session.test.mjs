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

const track = { stop() {} };
const opens = []; // the changes of each stream
let opened;

class FakeWorker {
  postMessage({ type, changes }) {
    if (type === "load") queueMicrotask(() => this.onmessage({ data: { type: "ready", language: "en" } }));
    if (type === "open") opened(opens.push(changes));
  }
}

const mediaDevices = { getUserMedia: async () => ({ getAudioTracks: () => [track] }) };
Object.assign(globalThis, {
  Worker: FakeWorker, AudioContext: Node, AudioWorkletNode: Node, document: { baseURI: "http://localhost/" },
});
Object.defineProperty(globalThis, "navigator", { value: { mediaDevices } });
const { load } = await import("../src/background.js");
const { Session } = await import("../src/speech_session.js");
await load({ model: "model.onnx", hotwords: ["the page's own"] });

test("a microphone lost at the start is an error", { timeout: 10_000 }, async () => {
  const opening = new Promise((resolve) => (opened = resolve));
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

test("phrases become hotwords, and alternatives have a limit", { timeout: 10_000 }, async () => {
  const phrases = [
    { phrase: "new=york: city ", boost: 5.5 }, { phrase: "never", boost: 0 }, { phrase: " : ", boost: 2 },
    { phrase: "\u{10400}\u{10401}", boost: 3 },
  ];
  for (const maxAlternatives of [1, 3, 1000]) {
    const opening = new Promise((resolve) => (opened = resolve));
    const session = new Session({ lang: "", grammars: [], phrases, maxAlternatives }, () => {});
    await opening;
    session.abort();
  }
  const hotwords = ["the page's own", "new york city:0.5", "\u{10400}\u{10401}:1.5"];
  const changes = [{ hotwords }, { hotwords, maxAlternatives: 2 }, { hotwords, maxAlternatives: 20 }];
  assert.deepEqual(opens.slice(-3), changes);
});

test("the region of a language does not matter", async (t) => {
  const recognizer = await load();
  t.after(() => (recognizer.language = "en"));
  for (const [language, accepted, refused] of [
    ["en", ["", "en", "en-US"], ["de", "de-DE", "not a tag"]],
    ["de-CH", ["", "de", "de-CH", "de-DE"], ["en", "en-CH"]],
    ["", ["", "en", "de-CH"], []],
  ]) {
    recognizer.language = language;
    assert.deepEqual([...accepted, ...refused].filter((lang) => recognizer.speaks(lang)), accepted, language);
  }
});
