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

const track = Object.assign(new EventTarget(), { stop() {} });
const opens = []; // the changes of each stream
let opened, say; // say(message): as the worker of the last stream

class FakeWorker {
  postMessage({ type, id, changes }) {
    if (type === "load") queueMicrotask(() => this.onmessage({ data: { type: "ready", language: "en" } }));
    if (type !== "open") return;
    say = (message) => this.onmessage({ data: { id, ...message } });
    opened(opens.push(changes));
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
    opening.then(() => setTimeout(() => track.dispatchEvent(new Event("ended"))));
  });
  assert.deepEqual(events, ["audio-capture", "end"]);
});

test("a page that starts again in `end` does not freeze", async () => {
  const events = [];
  let passed = false;
  setTimeout(() => (passed = true));
  await new Promise((resolve) => {
    const start = () => new Session({ lang: "fr", grammars: [], phrases: [] }, (event) => {
      events.push(event.error ?? event.type);
      if (event.type !== "end") return;
      if (passed || events.length > 1000) resolve();
      else start();
    });
    start();
  });
  assert.ok(passed, "no timer has run");
  assert.deepEqual(events.slice(0, 2), ["language-not-supported", "end"]);
});

test("an interim result that is withdrawn is empty", { timeout: 10_000 }, async () => {
  const opening = new Promise((resolve) => (opened = resolve));
  const found = [];
  const options = { lang: "", grammars: [], phrases: [], interimResults: true, maxAlternatives: 1 };
  const session = new Session(options, (event) => {
    if (event.type === "result") found.push(event);
  });
  await opening;
  await null; // the session has its stream
  say({ type: "opened", warnings: [] });
  for (const text of ["", "hello", "", ""]) {
    const words = text ? [{ word: text, confidence: 0.9 }] : [];
    say({ type: "events", audioS: 1, events: [{ type: "partial", text, words }] });
  }
  await null;
  session.abort();
  const last = found.map(({ results, resultIndex }) => [results.length, results[resultIndex]]);
  assert.deepEqual(last.map(([count, { isFinal, length }]) => [count, isFinal, length]), Array(2).fill([1, false, 1]));
  assert.deepEqual(last.map(([, [{ transcript, confidence }]]) => [transcript, confidence]), [["hello", 0.9], ["", 0]]);
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
