// Tests the page's side of the recognizer in a worker: `npm test`.
import assert from "node:assert/strict";
import { test } from "node:test";

import { FILES } from "../src/read.js";

test("the URL of every file is relative to the page, not to the worker", async () => {
  const sent = [];
  globalThis.document = { baseURI: "https://localhost/app/" };
  globalThis.Worker = class {
    postMessage(message) {
      sent.push(message);
      this.onmessage({ data: { type: "failed", message: "no recognizer here" } });
    }

    terminate() {}
  };
  const { load } = await import("../src/background.js");
  const given = Object.fromEntries(Object.keys(FILES).map((name) => [name, `models/${name}`]));
  await assert.rejects(load({ ...given, hotwords: ["x"] }), /no recognizer here/);
  const [{ options: { hotwords, ...files } }] = sent;
  assert.deepEqual(hotwords, ["x"]);
  assert.ok(Object.keys(files).length >= 5);
  for (const [name, url] of Object.entries(files)) assert.equal(url, `https://localhost/app/models/${name}`);
});
