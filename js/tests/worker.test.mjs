// Tests the worker of background.js, with this thread instead of the page: `npm test`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { read } from "../src/read.js";
import { Stream } from "../src/stream.js";

const MODEL = new URL("../../asr/models/tiny.int8.onnx", import.meta.url);

test("the bytes of a file are counted, and all of them if the server says so", async (t) => {
  const answer = (headers) => t.mock.method(globalThis, "fetch", async () =>
    new Response(new Blob(["abc", "defg"]).stream(), { headers }));
  for (const [headers, total] of [
    [{ "content-length": "7" }, 7], [{}, NaN], [{ "content-length": "3", "content-encoding": "gzip" }, NaN],
  ]) {
    answer(headers);
    const reports = [];
    const bytes = await read("https://localhost/x", "the model", (...numbers) => reports.push(numbers));
    assert.equal(String.fromCharCode(...bytes), "abcdefg");
    assert.deepEqual(reports.at(-1), [7, total]);
  }
});

test("a session is told of its own faults and errors", { timeout: 120_000 }, async (t) => {
  const messages = [];
  let wake = () => {};
  globalThis.onmessage = null;
  globalThis.postMessage = (message) => wake(messages.push(message));
  const until = async (type) => {
    while (messages.at(-1)?.type !== type) await new Promise((resolve) => (wake = resolve));
  };
  await import("../src/worker.js");
  const send = (data) => globalThis.onmessage({ data });
  send({ type: "load", options: { model: new Uint8Array(await readFile(MODEL)) } });
  await until("ready");

  // The recognizer's own warning, that there is no language model, is not of a session.
  for (const [id, hotwords, faults] of [[2, undefined, []], [3, ["B2B", "hello"], ["B2B"]]]) {
    send({ type: "open", id, sampleRate: 16000, changes: hotwords ? { hotwords } : {} });
    await until("opened");
    const { warnings } = messages.at(-1);
    assert.ok(warnings.length === faults.length && faults.every((fault, i) => warnings[i].includes(fault)), warnings);
    messages.pop();
  }

  t.mock.method(Stream.prototype, "finish", async () => {
    throw new Error("no memory");
  });
  send({ type: "open", id: 1, sampleRate: 16000, changes: {} });
  send({ type: "finish", id: 1 });
  await until("ended");
  assert.deepEqual(messages.slice(-3).map(({ type, message }) => [type, message]), [
    ["events", undefined],
    ["failed", "no memory"],
    ["ended", undefined],
  ]);
});
