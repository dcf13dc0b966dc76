// Tests the audio that the server's page keeps until it is recognized.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const source = await readFile(new URL("../../web/outbox.js", import.meta.url)); // its folder has no package.json
const { Outbox } = await import(`data:text/javascript;base64,${source.toString("base64")}`);

const RATE = 1000; // 100 samples in a message

// All messages that can be sent now, as arrays of samples.
function sent(outbox) {
  const found = [];
  for (let message = outbox.next(); message; message = outbox.next()) found.push(message);
  return found;
}

test("messages hold a tenth of a second, whatever the blocks", () => {
  const outbox = new Outbox(RATE);
  const samples = Float32Array.from({ length: 250 }, (_, i) => i / 1000);
  for (const cut of [[0, 30], [30, 230], [230, 250]]) outbox.add(samples.subarray(...cut), cut[1]);
  const whole = sent(outbox);
  const spans = whole.map(({ startS, endS, receivedAt }) => [startS, endS, receivedAt]);
  assert.deepEqual(spans, [[0, 0.1, 230], [0.1, 0.2, 230]]);
  outbox.flush(300);
  outbox.flush(301); // nothing is left
  const [last, ...more] = sent(outbox);
  assert.deepEqual([last.startS, last.endS, last.receivedAt, more], [0.2, 0.25, 300, []]);
  const values = [...whole, last].flatMap((message) => [...message.samples]);
  assert.deepEqual(values, [...samples].map((sample) => Math.trunc(32767 * sample)));
});

test("samples beyond full scale are clipped", () => {
  const outbox = new Outbox(RATE);
  outbox.add(Float32Array.of(2, -2, 1, -1), 0);
  outbox.flush(0);
  assert.deepEqual([...outbox.next().samples], [32767, -32767, 32767, -32767]);
});

test("audio without a reply is behind", () => {
  const outbox = new Outbox(RATE);
  assert.equal(outbox.answered(), undefined);
  outbox.add(new Float32Array(300), 0);
  assert.equal(outbox.behindS.toFixed(3), "0.300");
  outbox.next();
  outbox.next();
  assert.deepEqual([outbox.numUnanswered, outbox.allSent], [2, false]);
  assert.equal(outbox.answered().endS, 0.1);
  assert.deepEqual([outbox.numUnanswered, outbox.behindS.toFixed(3)], [1, "0.200"]);
  assert.equal(outbox.answered().endS, 0.2);
  assert.equal(outbox.answered(), undefined); // the third message was not sent
  outbox.next();
  outbox.answered();
  assert.deepEqual([outbox.numUnanswered, outbox.allSent, outbox.behindS], [0, true, 0]);
});

test("a new connection gets all kept audio again", () => {
  const outbox = new Outbox(RATE);
  outbox.add(new Float32Array(500), 0);
  sent(outbox);
  outbox.answered();
  outbox.drop(0.25); // the message from 0.2 to 0.3 is still needed
  assert.deepEqual([outbox.numUnanswered, outbox.allSent], [3, true]);
  assert.deepEqual(outbox.rewind(), { startS: 0.2, lostS: 0 });
  assert.deepEqual(sent(outbox).map(({ startS }) => startS), [0.2, 0.3, 0.4]);
  outbox.drop(1);
  assert.deepEqual(outbox.rewind(), { startS: 0.5, lostS: 0 });
});

test("ten minutes are kept, and what is lost is told once", () => {
  const outbox = new Outbox(RATE);
  for (let second = 0; second < 602; ++second) outbox.add(new Float32Array(RATE), second);
  const { startS, lostS } = outbox.rewind();
  assert.deepEqual([startS.toFixed(3), lostS.toFixed(3)], ["2.000", "2.000"]);
  assert.equal(sent(outbox).length, 6000);
  assert.equal(outbox.rewind().lostS, 0);
});
