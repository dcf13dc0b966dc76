// Tests whether the page says that it works without a network, as its service worker does.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const url = (text) => `data:text/javascript;base64,${Buffer.from(text).toString("base64")}`;
const background = url("export const load = async () => ({ seconds: 1, memory: 1 });");
const source = await readFile(new URL("../web/engine.js", import.meta.url), "utf8");
const { createEngine } = await import(url(source.replace("./asr-stream/src/background.js", background)));

async function offline(ready, installing) {
  const figures = [];
  const serviceWorker = { register: async () => ({ installing }), ready };
  Object.defineProperty(globalThis, "navigator", { value: { serviceWorker }, configurable: true });
  const figure = (name, value) => name === "offline" && figures.push(value);
  await createEngine({ figure, status() {} }).load();
  for (const state of ["installed", "redundant"]) {
    if (installing) Object.assign(installing, { state }).dispatchEvent(new Event("statechange"));
    await new Promise((resolve) => setImmediate(resolve));
  }
  return figures;
}

test("the files are kept, now or from an earlier visit", async () => {
  assert.deepEqual(await offline(Promise.resolve(), null), ["not yet", "works"]);
  assert.deepEqual(await offline(Promise.resolve(), new EventTarget()), ["not yet", "works"]);
});

test("the files cannot be kept", async () => {
  assert.deepEqual(await offline(new Promise(() => {}), new EventTarget()), ["not yet", "not in this browser"]);
});
