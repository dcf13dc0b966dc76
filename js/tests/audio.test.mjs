// WAV files and resampling.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { readWav } from "asr-stream/wav";

import { Resampler } from "../src/resampler.js";

const sine = (hz, rate, seconds) =>
  Float32Array.from({ length: seconds * rate }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hz * i) / rate));

function resample(samples, rate, pieceLength = samples.length) {
  const resampler = new Resampler(rate);
  const out = [];
  for (let begin = 0; begin < samples.length; begin += pieceLength) {
    out.push(...resampler.accept(samples.subarray(begin, begin + pieceLength))[0]);
  }
  return [...out, ...resampler.finish()];
}

test("a tone keeps its height, loudness and place at any rate", () => {
  for (const rate of [4000, 8000, 11025, 22050, 44099, 44100, 48000, 192000]) {
    const hz = 0.4 * Math.min(rate, 16000);
    const tone = sine(hz, rate, 0.5);
    const out = resample(tone, rate);
    assert.equal(out.length, Math.round((tone.length * 16000) / rate));
    const expected = sine(hz, 16000, 0.5);
    for (let i = 800; i < 7200; ++i) assert.ok(Math.abs(out[i] - expected[i]) < 5e-4, `${rate} Hz, sample ${i}: ${out[i]}`);
  }
});

test("what the new rate cannot hold is gone", () => {
  for (const hz of [8100, 9000, 12000, 20000]) {
    const out = resample(sine(hz, 48000, 0.5), 48000).slice(800, 7200);
    const loudest = out.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    assert.ok(loudest < 0.5e-3, `${hz} Hz leaves ${loudest}`);
  }
});

test("the pieces do not show", () => {
  const samples = sine(440, 44100, 0.3);
  const whole = resample(samples, 44100);
  for (const length of [1, 7, 1000]) assert.deepEqual(resample(samples, 44100, length), whole);
});

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
