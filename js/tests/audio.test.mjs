// Tests of WAV files.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { readWav } from "asr-stream/wav";

test("a WAV file that is cut short, or no speech of one channel, is refused", async () => {
  const bytes = new Uint8Array(await readFile(new URL("../../asr/samples/sample.wav", import.meta.url)));
  const { samples, sampleRate } = readWav(bytes);
  assert.equal(sampleRate, 16000);
  assert.equal(samples.length, (bytes.length - 44) / 2);
  for (let i = 0; i < samples.length; ++i) assert.equal(samples[i], Buffer.from(bytes).readInt16LE(44 + 2 * i));
  assert.ok(samples.some((sample) => sample > 1000));
  for (let part = 0; part < 64; ++part) {
    const cut = bytes.subarray(0, Math.floor((bytes.length * part) / 64));
    assert.throws(() => readWav(cut), /it is not a WAV file|it holds no audio|it is cut short/);
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

// A chunk of a RIFF file: an odd number of bytes is followed by a padding byte that is not in the length.
function chunk(name, content) {
  const head = Buffer.alloc(8);
  head.write(name);
  head.writeUInt32LE(content.length, 4);
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)]);
}

function wav(...chunks) {
  return Buffer.concat([Buffer.from("RIFF\0\0\0\0WAVE"), ...chunks]);
}

// A format of one channel, 8000 Hz and 16 bits. In the extensible form, the GUID at byte 24 begins with `coding`.
function format(coding, extensible) {
  const content = Buffer.alloc(extensible ? 40 : 16);
  content.writeUInt16LE(extensible ? 0xfffe : coding, 0);
  content.writeUInt16LE(1, 2);
  content.writeUInt32LE(8000, 4);
  content.writeUInt16LE(16, 14);
  if (extensible) content.writeUInt16LE(coding, 24);
  return chunk("fmt ", content);
}

test("chunks of any length, the extensible form and a part of a buffer are read", () => {
  const audio = chunk("data", Buffer.from([0x34, 0x12, 0xfe, 0xff]));
  const expected = { samples: Int16Array.of(0x1234, -2), sampleRate: 8000 };
  const odd = chunk("LIST", Buffer.from("odd"));
  for (const bytes of [wav(format(1, false), audio), wav(odd, format(1, true), odd, audio)]) {
    assert.deepEqual(readWav(new Uint8Array(bytes)), expected);
    const inside = new Uint8Array(bytes.length + 7);
    inside.set(bytes, 7);
    assert.deepEqual(readWav(inside.subarray(7)), expected);
  }
  assert.throws(() => readWav(new Uint8Array(wav(format(3, true), audio))), /coding 3; expected 16-bit PCM/);
  assert.throws(() => readWav(new Uint8Array(wav(audio, format(1, false)))), /no format chunk/);
  for (const size of [0, 1]) {
    const silent = wav(format(1, false), chunk("data", Buffer.alloc(size)));
    assert.throws(() => readWav(new Uint8Array(silent)), /it holds no audio/);
  }
  const short = chunk("fmt ", format(1, false).subarray(8, 18));
  assert.throws(() => readWav(new Uint8Array(wav(short, audio))), /no format chunk/);
  const cut = wav(format(1, false), audio).subarray(0, -2);
  assert.throws(() => readWav(new Uint8Array(cut)), /it is cut short: 2 bytes are left of the 4 in its header/);
});
