// Tests the microphone of the pages without a browser: devices that the test controls.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Microphone } from "../dist/microphone.js";

const NUM_TURNS = 12; // of the microtask queue: more than `open` takes

for (const takesAnyRate of [true, false]) {
  test(`nothing stays open after close, any rate: ${takesAnyRate}`, async () => {
    let opened = 0;
    for (let turn = 0; turn < NUM_TURNS; turn++) {
      const track = Object.assign(new EventTarget(), { stop: () => (track.stopped = true) });
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

// A microphone of the page's track, and what it has passed on.
async function listening() {
  const track = Object.assign(new EventTarget(), {
    readyState: "live", stop: () => (track.stopped = true), clone: () => ({ ...track, addEventListener() {} }),
  });
  const nodes = [], tracks = [], heard = [];
  Object.assign(globalThis, {
    MediaStream: class {
      constructor(given) {
        tracks.push(...given);
        this.getAudioTracks = () => given;
      }
    },
    AudioContext: class {
      audioWorklet = { addModule: async () => {} };
      createMediaStreamSource = () => ({ connect() {} });
      resume() {}
      async close() {}
    },
    AudioWorkletNode: class {
      port = {};
      constructor() {
        nodes.push(this);
      }
    },
  });
  const microphone = new Microphone({ block: () => heard.push("block"), lost: () => heard.push("lost") });
  await microphone.open("", track);
  microphone.start();
  const send = () => nodes[0].port.onmessage({ data: { samples: new Float32Array(256), peak: 0 } });
  return { microphone, track, tracks, heard, send };
}

test("a track of the page is listened to itself, and stays open", async () => {
  const { microphone, track, tracks, heard, send } = await listening();
  assert.equal(tracks[0], track); // a clone would not be disabled with it
  send();
  await microphone.close();
  track.dispatchEvent(new Event("ended"));
  assert.deepEqual(heard, ["block"]);
  assert.ok(!track.stopped);
});

test("a track that ends is lost", async () => {
  const { track, heard } = await listening();
  assert.equal(track.onended, undefined); // the page's own handler
  track.dispatchEvent(new Event("ended"));
  assert.deepEqual(heard, ["lost"]);
});

test("a track that the page stops is lost", async () => {
  const { track, heard, send } = await listening();
  track.readyState = "ended"; // without an event
  send();
  assert.deepEqual(heard, ["lost"]);
});
