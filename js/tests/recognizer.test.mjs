// Tests the package as an application uses it, with the bundled model and recording: `npm test`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import { ModelError, Recognizer, StreamError } from "asr-stream";
import { readWav } from "asr-stream/wav";

import { loadCore } from "../src/core.js";

const ASR = new URL("../../asr/", import.meta.url);
const MODEL = new URL("models/tiny.int8.onnx", ASR);
const LM = new URL("models/english.lm", ASR);
const PUNCTUATION = new URL("models/english.punctuation.onnx", ASR);
const DECODER = new URL("models/tiny.int8.decoder.onnx", ASR);

let model, recognizer, samples, whole; // whole: the events of the recording

before(async () => {
  model = new Uint8Array(await readFile(MODEL));
  recognizer = await Recognizer.load({ model });
  ({ samples } = readWav(await readFile(new URL("samples/sample.wav", ASR))));
  whole = await recognize(samples);
});
after(() => recognizer.close());

async function recognize(audio, { by = recognizer, cuts = [], rate = 16000 } = {}) {
  const stream = by.stream();
  const events = [];
  let begin = 0;
  for (const cut of [...cuts, audio.length]) {
    events.push(...(await stream.accept(audio.subarray(begin, cut), rate)));
    begin = cut;
  }
  return [...events, ...(await stream.finish())];
}

const texts = (events) => events.map(({ type, text }) => `${type} ${text}`);
const damaged = /damaged|cut short|missing|not an asr-stream model|model for asr-stream/;

test("events depend on the audio, not on how it is cut, nor on its number format, nor on waiting", async () => {
  assert.equal(whole.filter(({ type }) => type === "final").length, 1);
  assert.ok(whole.length > 5);
  const floats = Float32Array.from(samples, (sample) => sample / 32768);
  for (let round = 1; round <= 4; ++round) {
    const cuts = Array.from({ length: 9 * round }, (_, i) => (i * 7919 * round) % samples.length).sort((a, b) => a - b);
    assert.deepEqual(await recognize(round % 2 ? samples : floats, { cuts }), whole);
  }
  const stream = recognizer.stream();
  const block = new Float32Array(1000); // reused for each block, as in an audio callback
  const pending = [];
  for (let begin = 0; begin < floats.length; begin += block.length) {
    const piece = floats.subarray(begin, begin + block.length);
    block.set(piece);
    pending.push(stream.accept(block.subarray(0, piece.length)));
  }
  pending.push(stream.finish());
  assert.deepEqual((await Promise.all(pending)).flat(), whole);
});

test("streams do not hear each other", async () => {
  const other = samples.slice().reverse();
  const alone = [whole, await recognize(other)];
  const cuts = Array.from({ length: 20 }, (_, i) => i * 4000);
  assert.deepEqual(await Promise.all([recognize(samples, { cuts }), recognize(other, { cuts })]), alone);
});

test("after a gap the times go on", async () => {
  const stream = recognizer.stream();
  const first = await stream.accept(samples);
  const gap = await stream.gap(48000, 48000);
  const second = [...(await stream.accept(samples)), ...(await stream.finish())];
  assert.deepEqual([...first, ...gap.slice(0, -1)], whole);
  const at = samples.length / 16000;
  assert.deepEqual(gap.at(-1), { type: "gap", text: "1.000 s of audio were lost", start: at, end: at + 1, words: [] });
  assert.deepEqual(texts(second), texts(whole));
  assert.ok(Math.abs(second.at(-1).start - whole.at(-1).start - at - 1) < 1e-6);
  assert.throws(() => stream.gap(1), /finished/);
});

test("onnxruntime-node reports nothing unless the user says so", async () => {
  const seen = [];
  const create = async () => {
    seen.push(process.env.ORT_DISABLE_TELEMETRY);
    throw new Error("no session");
  };
  for (const given of [undefined, "0"]) {
    delete process.env.ORT_DISABLE_TELEMETRY;
    if (given) process.env.ORT_DISABLE_TELEMETRY = given;
    await assert.rejects(Recognizer.load({ model, ort: { InferenceSession: { create } } }), /no session/);
  }
  delete process.env.ORT_DISABLE_TELEMETRY;
  assert.deepEqual(seen, ["1", "0"]);
});

test("a model with phones and no language model is warned of", async () => {
  assert.match(recognizer.warnings[0], /without a language model: it spells words by their sound/);
  assert.equal(recognizer.warnings.length, 1);
  for (const changes of [{ search: "greedy" }, { phrases: ["the old man"] }]) {
    const variant = await recognizer.withOptions(changes);
    assert.deepEqual(variant.warnings, []);
    await variant.close();
  }
});

test("a language model pronounces the phrases", async () => {
  const phrases = ["the old man walked slowly", "down the rode", "and the children ran after him"]; // not "road"
  const finals = [];
  for (const assets of [{ model, lm: LM }, { model }]) { // over phones, over letters
    const closed = await Recognizer.load({ ...assets, text: "plain", phrases });
    finals.push((await recognize(samples, { by: closed })).at(-1));
    await closed.close();
  }
  assert.deepEqual(finals.map(({ text }) => text), [phrases.join(" "), phrases.join(" ")]);
  assert.notDeepEqual(...finals.map(({ words }) => words.map(({ confidence }) => confidence)));
});

test("audio of another sample rate is resampled, and its times stay those of the stream", async () => {
  const expected = await recognize(samples, { rate: 20000 });
  const [spoken, faster] = [whole, expected].map((events) => events.at(-1));
  assert.ok(Math.abs(faster.end - (spoken.end * 16) / 20) < 0.2, `${faster.end} s`);
  assert.deepEqual(await recognize(samples, { rate: 20000, cuts: [1, 500, 30001] }), expected);
  const stream = recognizer.stream();
  await stream.accept(new Float32Array(48000), 48000);
  await stream.accept(new Float32Array(16000));
  assert.equal((await stream.gap(1)).at(-1).start, 2);
  stream.close();
});

test("samples that are not finite count as silence, and are reported once", async () => {
  for (const rate of [16000, 48000]) {
    const audio = new Float32Array(3 * rate).fill(0);
    audio.fill(NaN, 100, 103);
    const errors = (await recognize(audio, { rate })).filter(({ type }) => type === "error");
    assert.equal(errors.length, 1);
    assert.match(errors[0].text, /^3 samples were not finite/);
  }
});

test("formatted text has small letters, masked words are stars, and raw text is what was said", async () => {
  const plain = whole.at(-1);
  const by = await Recognizer.load({ model, text: "formatted", mask: ["the", "walked slowly"] });
  const shown = (await recognize(samples, { by })).at(-1);
  await by.close();
  assert.equal(shown.raw, plain.raw);
  assert.deepEqual(shown.rawWords, plain.rawWords);
  const masked = plain.raw.toLowerCase().replaceAll(/\bthe\b/g, "***").replace("walked slowly", "****** ******");
  assert.equal(shown.text, masked);
  assert.equal(shown.words.map(({ word }) => word).join(" "), shown.text);
  const message = /text is 'pretty'; it must be one of formatted, plain/;
  await assert.rejects(Recognizer.load({ model, text: "pretty" }), message);
});

test("phrases are shown without capitals and punctuation", async () => {
  const options = { phrases: ["mister man"], unknownCost: 100, punctuation: PUNCTUATION };
  const by = await Recognizer.load({ model, ...options });
  const { raw, text } = (await recognize(samples, { by })).at(-1);
  await by.close();
  assert.match(raw, /^(MISTER MAN ?)+$/);
  assert.match(text, /^(Mr\. man ?)+$/);
});

test("every option of the core is one of the recognizer, under its name in JavaScript", async () => {
  const core = await loadCore();
  const { options } = core.contract();
  assert.ok(Object.keys(options).length > 15);
  const types = await readFile(new URL("../src/index.d.ts", import.meta.url), "utf8");
  for (const key of Object.keys(options)) {
    const wrong = { model, [key]: {} }; // no option has this type
    await assert.rejects(Recognizer.load(wrong), new RegExp(`^RangeError: ${key} has the wrong type; it must be `));
    assert.match(types, new RegExp(`^  ${key}\\?: `, "m"));
  }
});

test("an utterance is ended and options are changed within a stream", async () => {
  const variant = await recognizer.withOptions({ search: "beam", chunkMs: 320, leftContextMs: 640, mask: ["the"] });
  const stream = recognizer.stream();
  const events = [...(await stream.accept(samples)), ...(await stream.endUtterance())];
  assert.deepEqual({ ...events.at(-1) }, { ...whole.at(-1), endpoint: events.at(-1).endpoint });
  assert.throws(() => stream.change({}), /TypeError: change takes a Recognizer/); // and the stream goes on
  await stream.change(variant);
  const later = [...(await stream.accept(samples)), ...(await stream.finish())];
  const alone = (await recognize(samples, { by: variant })).at(-1);
  assert.equal(later.at(-1).text, alone.text);
  assert.match(alone.text, /\*\*\*/);
  await variant.close();
  await assert.rejects(recognizer.withOptions({ lm: LM }), /share lm/);
  assert.equal((await recognize(samples)).at(-1).text, whole.at(-1).text); // the variant closed only its own resources
});

test("what is amiss is said where it was written", async () => {
  const wrong = [
    [{}, /option model is missing/],
    [{ model, chunk: 640 }, /option chunk is not known: choose among model, lm, neuralLm, punctuation/],
    [{ model, chunkMs: 650 }, /chunkMs is 650; it must be a multiple of 40 in \[40, 5120\]/],
    [{ model, search: "best" }, /search is 'best'; it must be one of greedy, beam, rescore/],
    [{ model, search: "greedy", lm: LM }, /greedy takes no language model/],
    [{ model, search: "joint" }, /joint is not available in JavaScript.* use search rescore/],
    [{ model, lmWeight: 11 }, /lmWeight is 11; it must be in \[0, 10\]/],
    [{ model: 5 }, /the model is number; expected a URL, a path or bytes/],
    [{ model: "nowhere.onnx" }, /the model nowhere.onnx cannot be read: ENOENT/],
  ];
  for (const [options, message] of wrong) await assert.rejects(Recognizer.load(options), message);
  const stream = recognizer.stream();
  assert.throws(() => stream.accept([0, 0]), /Float32Array/);
  assert.throws(() => stream.accept(samples, 100), /sampleRate is 100; it must be a whole number of Hz in \[1000/);
  assert.throws(() => stream.gap(-1), /numSamples is -1/);
  await stream.finish();
  assert.throws(() => stream.accept(samples), /finished/);
});

test("a model that is cut short is refused, wherever it is cut", async () => {
  for (const length of [0, 1000, model.length >> 1, model.length - 1]) {
    const isDamage = (error) => error instanceof ModelError && damaged.test(error.message);
    await assert.rejects(Recognizer.load({ model: model.subarray(0, length) }), isDamage);
  }
  const noLm = { name: "ModelError", message: /^the language model: .*damaged/ };
  await assert.rejects(Recognizer.load({ model, lm: new Uint8Array(100) }), noLm);
});

// An ONNX Runtime whose runs fail after a given number of runs, or for the graphs that have one of the inputs `broken`.
function unreliable(ort) {
  const state = { left: Infinity, broken: [] };
  const create = async (...args) => {
    const session = await ort.InferenceSession.create(...args);
    const { inputNames, outputNames } = session;
    const fails = () => state.left-- <= 0 || inputNames.some((name) => state.broken.includes(name));
    const run = (inputs) => (fails() ? Promise.reject(new Error("the device is gone")) : session.run(inputs));
    return { inputNames, outputNames, run, release: () => session.release() };
  };
  return { state, InferenceSession: { create }, Tensor: ort.Tensor };
}

test("a stream whose network fails says so from then on, and keeps the events before it", async () => {
  const ort = unreliable(await import("onnxruntime-web/wasm"));
  const broken = await Recognizer.load({ model, ort });
  const expected = await recognize(samples, { by: broken });
  ort.state.left = 4;
  const stream = broken.stream();
  const calls = [stream.accept(samples), stream.accept(samples), stream.finish(), stream.finish()];
  const [first, ...rest] = (await Promise.allSettled(calls)).map(({ reason }) => reason);
  assert.ok(first instanceof StreamError && /recognition failed: the device is gone/.test(first.message));
  assert.ok(first.events.length > 0);
  assert.deepEqual(first.events, expected.slice(0, first.events.length));
  const late = await Promise.allSettled([stream.accept(samples), stream.gap(1), stream.finish()]);
  rest.push(...late.map((call) => call.reason));
  for (const error of rest) {
    assert.ok(error instanceof StreamError && /this stream failed \(the device is gone\)/.test(error.message), error);
    assert.deepEqual(error.events, []);
  }
  ort.state.left = Infinity;
  await broken.close();
});

test("without a network that is not the encoder, the words are recognized without it", async () => {
  const ort = unreliable(await import("onnxruntime-web/wasm"));
  const broken = await Recognizer.load({ model, ort, punctuation: PUNCTUATION, decoder: DECODER });
  const searched = await broken.withOptions({ search: "beam" });
  ort.state.broken = ["pauses"];
  const expected = await recognize(samples, { by: searched });
  ort.state.broken = ["pauses", "token_lengths"]; // of the decoder
  const twice = Int16Array.from([...samples, ...new Int16Array(48000), ...samples]);
  const events = await recognize(twice, { by: broken });
  const errors = events.filter(({ type }) => type === "error").map(({ text }) => text.split(",")[0]);
  assert.deepEqual(errors.sort(), ["the decoder failed", "the network for case and punctuation failed"]);
  const finals = events.filter(({ type }) => type === "final");
  assert.ok(finals.length > 1);
  assert.equal(finals[0].raw, expected.find(({ type }) => type === "final").raw);
  assert.equal(finals[0].text, finals[0].raw.toLowerCase());
  await searched.close();
  await broken.close();
});

test("a rejected call changes nothing", async () => {
  const closed = await recognizer.withOptions({ chunkMs: 320 });
  const closing = await recognizer.withOptions({ chunkMs: 320 });
  await closed.close();
  const stream = recognizer.stream();
  const events = await stream.accept(samples.subarray(0, 20000));
  assert.throws(() => stream.change(closed), /change takes an open Recognizer; this one is closed/);
  const change = stream.change(closing);
  await closing.close(); // before the call's turn
  await assert.rejects(change, (error) => !(error instanceof StreamError));
  events.push(...(await stream.accept(samples.subarray(20000))), ...(await stream.finish()));
  assert.deepEqual(events, whole);

  const far = recognizer.stream();
  for (let i = 0; i < 32; ++i) await far.gap(2 ** 48);
  await assert.rejects(far.gap(1), (error) => error instanceof RangeError && /longer than 2\^53/.test(error.message));
  assert.deepEqual(await far.accept(samples.subarray(0, 100)), []);
  await far.finish();
});

test("a stream may leave out the language model", async () => {
  const loaded = await Recognizer.load({ model, lm: LM, search: "beam" });
  await assert.rejects(loaded.withOptions({ search: "greedy" }), /search greedy takes no language model/);
  const variant = await loaded.withOptions({ search: "greedy", useLm: false });
  const greedy = await recognizer.withOptions({ search: "greedy" });
  assert.deepEqual(await recognize(samples, { by: variant }), await recognize(samples, { by: greedy }));
  await Promise.all([variant, greedy].map((made) => made.close()));
  await loaded.close();
});

test("one odd line never refuses a list", async () => {
  for (const [name, line] of [
    ["hotwords", "Bertie:nan"], ["hotwords", "Star Trek: Voyager"],
    ["replace", "no arrow"], ["ownCommands", "no arrow"],
  ]) {
    const changed = await recognizer.withOptions({ [name]: [line] });
    const skipped = changed.warnings.filter((text) => !recognizer.warnings.includes(text));
    assert.equal(skipped.length, 1);
    assert.ok(skipped[0].includes(`line '${line}'`), skipped[0]);
    await changed.close();
  }
});

test("finish twice is once", async () => {
  const stream = recognizer.stream();
  await stream.accept(samples);
  assert.equal((await stream.finish()).at(-1).type, "final");
  assert.deepEqual(await stream.finish(), []);
});

test("finished streams leave nothing behind", async () => {
  const core = await loadCore();
  const run = async (times) => {
    for (let i = 0; i < times; ++i) await recognize(samples.subarray(0, 20000));
    for (let i = 0; i < 50 * times; ++i) recognizer.stream().close();
  };
  await run(2);
  await new Promise(setImmediate);
  const held = core.HEAPU8.length;
  await run(20);
  assert.equal(core.HEAPU8.length, held);
});
