// Tests the microphone of the pages without a browser: devices that the test controls.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Microphone } from "../dist/microphone.js";

const NUM_TURNS = 12; // of the microtask queue: more than `open` takes

for (const takesAnyRate of [true, false]) {
  test(`nothing stays open after close, any rate: ${takesAnyRate}`, async () => {
    let opened = 0;
    for (let turn = 0; turn < NUM_TURNS; turn++) {
      const track = { stop: () => (track.stopped = true) };
      const stream = { getAudioTracks: () => [track] };
      const contexts = [];
      class FakeContext {
        audioWorklet = { addModule: async () => {} };
        sampleRate = 48000;
        closed = 0;
        constructor(options) {
          this.options = options;
          contexts.push(this);
        }
        createMediaStreamSource() {
          if (this.options && !takesAnyRate) throw new DOMException("", "NotSupportedError");
        }
        async close() {
          this.closed++;
        }
      }
      Object.assign(globalThis, { AudioContext: FakeContext, AudioWorkletNode: class { port = {}; } });
      const mediaDevices = { getUserMedia: async () => stream };
      Object.defineProperty(globalThis, "navigator", { value: { mediaDevices }, configurable: true });

      const microphone = new Microphone({});
      const result = microphone.open("").then(() => opened++, (error) => assert.equal(error.name, "AbortError"));
      for (let i = 0; i < turn; i++) await null;
      await microphone.close();
      await result;
      assert.equal(track.stopped, true, `closed in turn ${turn}`);
      assert.deepEqual(contexts.map(({ closed }) => closed), contexts.map(() => 1), `closed in turn ${turn}`);
    }
    assert.ok(opened > 0 && opened < NUM_TURNS, `${opened} were open when they were closed`);
  });
}
