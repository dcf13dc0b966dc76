// Resampling of live audio to 16 kHz: a low-pass of 4 ms to either side (a sinc under a Kaiser window), evaluated
// where the new samples lie. Passes up to 0.9 of the lower Nyquist frequency, and what would alias is 80 dB down.

export const SAMPLE_RATE = 16000; // of everything behind the resampler, in Hz
const MIN_SAMPLE_RATE = 4000, MAX_SAMPLE_RATE = 384000;
const MAX_MAGNITUDE = 1e9; // beyond it a sample counts as not finite, as in csrc/frontend/fbank.h

const HALF_WIDTH = 64; // of the filter, in samples of the lower rate
const CUTOFF = 0.95; // of the lower Nyquist frequency: half-way through the transition
const KAISER_BETA = 8.5;
const RESOLUTION = 512; // filter values per sample of the lower rate; between them it is interpolated

// Throws RangeError unless `sampleRate` is a whole number of Hz in [4000, 384000].
export function checkSampleRate(sampleRate) {
  if (!Number.isInteger(sampleRate) || sampleRate < MIN_SAMPLE_RATE || sampleRate > MAX_SAMPLE_RATE) {
    throw new RangeError(
      `sampleRate is ${sampleRate}; it must be a whole number of Hz in [${MIN_SAMPLE_RATE}, ${MAX_SAMPLE_RATE}]`,
    );
  }
}

// Any rate to 16 kHz, piece by piece. The output does not depend on the pieces.
export class Resampler {
  #ratio; // input samples per output sample
  #scale; // filter steps per input sample
  #reach; // input samples that count to either side
  #filter;
  #held = new Float32Array(0);
  #heldBegin = 0; // position of the first held sample
  #numIn = 0;
  #numOut = 0;

  constructor(sampleRate) {
    this.#ratio = sampleRate / SAMPLE_RATE;
    this.#scale = RESOLUTION / Math.max(1, this.#ratio);
    this.#reach = Math.floor((HALF_WIDTH * RESOLUTION) / this.#scale);
    this.#filter = halfFilter(CUTOFF / Math.max(1, this.#ratio));
  }

  // Float32Array or Int16Array -> what is ready, a Float32Array, and how many samples were not finite; those become
  // 0: one NaN in the filter would spoil all that follows.
  accept(samples) {
    const audio = Float32Array.from(samples);
    let numNonfinite = 0;
    for (let i = 0; i < audio.length; ++i) {
      if (samples instanceof Int16Array) audio[i] /= 32768;
      else if (!(Math.abs(audio[i]) <= MAX_MAGNITUDE)) {
        audio[i] = 0;
        ++numNonfinite;
      }
    }
    this.#numIn += audio.length;
    this.#hold(audio);
    return [this.#produce(Math.ceil((this.#numIn - this.#reach - 1) / this.#ratio)), numNonfinite];
  }

  // The end of the audio so far. The resampler then starts afresh.
  finish() {
    const rest = this.#produce(Math.round(this.#numIn / this.#ratio));
    this.#held = new Float32Array(0);
    this.#heldBegin = this.#numIn = this.#numOut = 0;
    return rest;
  }

  #hold(audio) {
    const needed = Math.max(0, Math.floor(this.#numOut * this.#ratio) - this.#reach - 1);
    const kept = this.#held.subarray(Math.min(this.#held.length, Math.max(0, needed - this.#heldBegin)));
    this.#heldBegin += this.#held.length - kept.length;
    const held = new Float32Array(kept.length + audio.length);
    held.set(kept);
    held.set(audio, kept.length);
    this.#held = held;
  }

  // Output samples up to number `end`; before the beginning and after the end of the audio there is silence.
  #produce(end) {
    const out = new Float32Array(Math.max(0, end - this.#numOut));
    for (let i = 0; i < out.length; ++i) {
      const at = this.#numOut * this.#ratio - this.#heldBegin;
      const first = Math.max(0, Math.ceil(at - this.#reach));
      const last = Math.min(this.#held.length - 1, Math.floor(at + this.#reach));
      let sum = 0;
      for (let k = first; k <= last; ++k) {
        const place = Math.abs(k - at) * this.#scale;
        const index = Math.floor(place);
        const low = this.#filter[index];
        sum += this.#held[k] * (low + (place - index) * (this.#filter[index + 1] - low));
      }
      out[i] = sum;
      ++this.#numOut;
    }
    return out;
  }
}

// The right half of the symmetric filter; `gain` makes the sum over input samples one.
function halfFilter(gain) {
  const filter = new Float64Array(HALF_WIDTH * RESOLUTION + 2); // two zeros at the end to interpolate towards
  for (let i = 0; i < HALF_WIDTH * RESOLUTION; ++i) {
    const x = i / RESOLUTION;
    const sinc = i === 0 ? 1 : Math.sin(Math.PI * CUTOFF * x) / (Math.PI * CUTOFF * x);
    filter[i] = gain * sinc * (bessel(KAISER_BETA * Math.sqrt(1 - (x / HALF_WIDTH) ** 2)) / bessel(KAISER_BETA));
  }
  return filter;
}

// I0, the modified Bessel function of order 0, by its series.
function bessel(x) {
  let sum = 1, term = 1;
  for (let k = 1; term > 1e-12 * sum; ++k) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}
