// Tests the worker of background.js, with this thread instead of the page: `npm test`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Stream } from "../src/stream.js";

const MODEL = new URL("../../asr/models/tiny.int8.onnx", import.meta.url);

test("an error of the last step is reported before the stream ends", { timeout: 120_000 }, async (t) => {
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
