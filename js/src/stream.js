// A stream: one source of audio at any sample rate. Everything but the network is in C++ (csrc/stream.h), which asks
// for work; the networks that do this work run here.

const PIECE_S = 10; // limits the copies of a long recording

// The encoder failed. Every later call of the stream rejects with this error, too; `events`: earlier events, which the
// failed call would have resolved to.
export class StreamError extends Error {
  name = "StreamError";

  constructor(message, events, options) {
    super(message, options);
    this.events = events;
  }
}

export class Stream {
  #core;
  #recognizers; // the current one, followed by those set by `change`
  #numChanges = 0;
  #states = new Map(); // that networks carry from run to run, by slot
  #closed = false; // no more audio is accepted
  #failure = null; // why the stream cannot be used any more: {reason, cause}
  #finished = null; // the result of the first `finish`
  #last = Promise.resolve(); // calls run in order, even if they are not awaited

  // core: a Stream of js/csrc/core.cc, which this object frees. Applications get streams from Recognizer.stream().
  constructor(core, recognizer) {
    this.#core = core;
    this.#recognizers = [recognizer];
  }

  accept(samples, sampleRate = this.#recognizers[0].contract.sampleRate) {
    if (!(samples instanceof Float32Array) && !(samples instanceof Int16Array)) {
      throw new TypeError("samples must be a Float32Array in ±1 or an Int16Array, mono");
    }
    this.#checkSampleRate(sampleRate);
    const audio = samples.slice(); // the caller may reuse its array
    return this.#inTurn(async () => {
      for (let begin = 0; begin < audio.length; begin += PIECE_S * sampleRate) {
        const piece = audio.subarray(begin, begin + PIECE_S * sampleRate);
        if (piece instanceof Int16Array) this.#core.acceptInt16(piece, sampleRate);
        else this.#core.acceptFloat32(piece, sampleRate);
        await this.#runUntilDone();
      }
    });
  }

  gap(numSamples, sampleRate = this.#recognizers[0].contract.sampleRate) {
    this.#checkSampleRate(sampleRate);
    if (!Number.isSafeInteger(numSamples) || numSamples < 0 || numSamples > 2 ** 48) {
      throw new RangeError(`numSamples is ${numSamples}; it must be a whole number in [0, 2^48]`);
    }
    return this.#inTurn(async () => {
      this.#core.gap(numSamples, sampleRate);
      await this.#runUntilDone();
    });
  }

  endUtterance() {
    return this.#inTurn(async () => {
      this.#core.endUtterance();
      await this.#runUntilDone();
    });
  }

  change(recognizer) {
    if (!recognizer?.streamOptions) throw new TypeError("change takes a Recognizer, from load() or withOptions()");
    if (recognizer.streamOptions.isDeleted()) {
      throw new TypeError("change takes an open Recognizer; this one is closed");
    }
    return this.#inTurn(async () => {
      this.#core.change(recognizer.streamOptions);
      this.#recognizers.push(recognizer);
      await this.#runUntilDone();
    });
  }

  finish() {
    if (this.#finished) return this.#finished.then(() => []);
    this.#finished = this.#inTurn(async () => {
      this.#core.finish();
      await this.#runUntilDone();
    });
    this.close();
    return this.#finished;
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#last = this.#last.then(() => this.#core.delete());
  }

  // Runs `task` after all earlier ones have ended; resolves to its events. A call that the core rejects changes
  // nothing.
  #inTurn(task) {
    if (this.#failure) return Promise.reject(this.#again());
    if (this.#closed) throw new Error("this stream is finished; take a new one from Recognizer.stream()");
    const done = this.#last.then(async () => {
      if (this.#failure) throw this.#again();
      try {
        await task();
      } catch (error) {
        if (error instanceof WebAssembly.RuntimeError) this.#core.fail(error.message); // the core was interrupted
        const reason = this.#core.failure;
        if (!reason) throw error;
        this.#failure = { reason, cause: error };
        throw new StreamError(`recognition failed: ${reason}`, this.#core.takeEvents(), { cause: error });
      }
      return this.#core.takeEvents();
    });
    this.#last = done.catch(() => {}); // the caller handles errors
    return done;
  }

  #again() {
    const { reason, cause } = this.#failure;
    return new StreamError(`this stream failed (${reason}); take a new one`, [], { cause });
  }

  async #runUntilDone() {
    for (let work = this.#core.work(); work; work = this.#core.work()) {
      for (; this.#numChanges < this.#core.numChanges; ++this.#numChanges) this.#recognizers.shift();
      let outputs;
      try {
        outputs = await this.#recognizers[0].networks[work.network].run(work, this.#states);
      } catch (error) { // the core goes on without a network that is not the encoder
        this.#core.notAnswered(String(error?.message ?? error));
        if (this.#core.failure) throw error;
        continue;
      }
      this.#core.answer(outputs);
    }
  }

  #checkSampleRate(sampleRate) {
    const { minSampleRate, maxSampleRate } = this.#recognizers[0].contract;
    if (!Number.isInteger(sampleRate) || sampleRate < minSampleRate || sampleRate > maxSampleRate) {
      throw new RangeError(
        `sampleRate is ${sampleRate}; it must be a whole number of Hz in [${minSampleRate}, ${maxSampleRate}]`,
      );
    }
  }
}
