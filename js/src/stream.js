// A stream: one source of audio, of any sample rate, with a clock that lost audio cannot set wrong.
//
// After a gap everything starts afresh, the encoder's cache included: what follows is recognised as a new stream
// whose times go on.

import { Resampler, SAMPLE_RATE, checkSampleRate } from "./resampler.js";

export class Stream {
  #newSegment;
  #segment;
  #resampler = null;
  #sampleRate = SAMPLE_RATE;
  #anchorS = 0; // seconds: where audio of this sample rate without a gap began
  #numSamples = 0; // since then
  #closed = false; // no call comes any more
  #last = Promise.resolve(); // calls are done in turn, whether or not they are awaited

  // newSegment: (startS) => Segment. Applications take streams from Recognizer.stream().
  constructor(newSegment) {
    this.#newSegment = newSegment;
    this.#segment = newSegment(0);
  }

  accept(samples, sampleRate = SAMPLE_RATE) {
    if (!(samples instanceof Float32Array) && !(samples instanceof Int16Array)) {
      throw new TypeError("samples must be a Float32Array in ±1 or an Int16Array, mono");
    }
    checkSampleRate(sampleRate);
    const audio = samples.slice(); // the caller may use its array again
    return this.#inTurn(async (events) => {
      await this.#setSampleRate(sampleRate, events);
      this.#numSamples += audio.length;
      if (!this.#resampler) return this.#segment.accept(audio, events);
      // In pieces, so that a long recording is not held three times.
      for (let begin = 0; begin < audio.length; begin += sampleRate) {
        const [resampled, numNonfinite] = this.#resampler.accept(audio.subarray(begin, begin + sampleRate));
        this.#segment.addNonfinite(numNonfinite);
        await this.#segment.accept(resampled, events);
      }
    });
  }

  gap(numSamples, sampleRate = SAMPLE_RATE) {
    checkSampleRate(sampleRate);
    if (!Number.isSafeInteger(numSamples) || numSamples < 0) {
      throw new RangeError(`numSamples is ${numSamples}; it must be a whole number, at least 0`);
    }
    return this.#inTurn(async (events) => {
      if (numSamples === 0) return;
      await this.#flush(events);
      const start = this.#clockS;
      const lostS = numSamples / sampleRate;
      this.#anchorS = start + lostS;
      this.#numSamples = 0;
      events.push({
        type: "gap", text: `${lostS.toFixed(3)} s of audio were lost`, start, end: this.#anchorS, words: [],
      });
      this.#segment.delete();
      this.#segment = this.#newSegment(this.#anchorS);
    });
  }

  finish() {
    const done = this.#inTurn((events) => this.#flush(events));
    this.close();
    return done;
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#last = this.#last.then(() => this.#segment.delete());
  }

  get #clockS() {
    return this.#anchorS + this.#numSamples / this.#sampleRate;
  }

  // Resolves to the events of `task`, which begins when all earlier ones have ended.
  #inTurn(task) {
    if (this.#closed) throw new Error("this stream is finished; take a new one from Recognizer.stream()");
    const events = [];
    const done = this.#last.then(() => task(events)).then(() => events);
    this.#last = done.catch(() => {}); // the caller hears of it
    return done;
  }

  async #flush(events) {
    if (this.#resampler) await this.#segment.accept(this.#resampler.finish(), events);
    await this.#segment.finish(events);
  }

  async #setSampleRate(sampleRate, events) {
    if (sampleRate === this.#sampleRate) return;
    if (this.#resampler) await this.#segment.accept(this.#resampler.finish(), events);
    this.#anchorS = this.#clockS;
    this.#numSamples = 0;
    this.#sampleRate = sampleRate;
    this.#resampler = sampleRate === SAMPLE_RATE ? null : new Resampler(sampleRate);
  }
}
