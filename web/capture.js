// An AudioWorklet that passes on the microphone's audio in blocks of about 16 ms with their peak, and never blocks.

const SILENCE = new Float32Array(128);

class Capture extends AudioWorkletProcessor {
  #block = new Float32Array(128 * Math.round((0.016 * sampleRate) / 128));
  #length = 0;
  #peak = 0;

  process([[samples = SILENCE]]) { // Firefox gives no channel if a track is silent
    this.#block.set(samples, this.#length);
    this.#length += samples.length;
    if (this.#length === this.#block.length) {
      const block = this.#block.slice();
      // The displayed peak falls slowly, so that it is visible.
      this.#peak = block.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0.9 * this.#peak);
      this.port.postMessage({ samples: block, peak: this.#peak }, [block.buffer]);
      this.#length = 0;
    }
    return true;
  }
}

registerProcessor("capture", Capture);
