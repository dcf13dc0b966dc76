// WAV files.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { readWav } from "asr-stream/wav";

test("a WAV file that is cut short, or no speech of one channel, is refused", async () => {
  const bytes = new Uint8Array(await readFile(new URL("../../asr/samples/sample.wav", import.meta.url)));
  const { samples, sampleRate } = readWav(bytes);
  assert.equal(sampleRate, 16000);
  assert.equal(samples.length, (bytes.length - 44) / 2);
  assert.equal(samples[1000], Buffer.from(bytes).readInt16LE(44 + 2000));
  for (let part = 0; part < 64; ++part) {
    const cut = bytes.subarray(0, Math.floor((bytes.length * part) / 64));
    assert.throws(() => readWav(cut), /it is no WAV file|it holds no audio|it is cut short/);
  }
  const changed = (at, value) => {
    const copy = bytes.slice();
    copy[at] = value;
    return copy;
  };
  assert.throws(() => readWav(changed(22, 2)), /it has 2 channels; expected one/);
  assert.throws(() => readWav(changed(34, 8)), /it has 8 bits of coding 1; expected 16-bit PCM/);
  assert.throws(() => readWav(changed(20, 3)), /coding 3; expected 16-bit PCM/);
});
