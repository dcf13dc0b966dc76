// Audio on its way to the server, in messages with one reply each. Audio that may not be in a final yet is kept, so
// that it can be sent again over another connection.

const MESSAGE_S = 0.1;
const MAX_KEPT_S = 600; // 19 MB at 16 kHz; older audio is discarded

export class Outbox {
  #sampleRate;
  #messages = []; // {samples, startS, endS, receivedAt}, oldest first; times since the start of the recording
  #numSent = 0; // of the messages, from the first
  #numAnswered = 0; // of the sent ones
  #filling = null; // the message that is not full yet
  #numFilled = 0;
  #numSamples = 0; // of the recording, to the end of the messages
  #lostS = 0;

  constructor(sampleRate) {
    this.#sampleRate = sampleRate;
  }

  // samples: Float32Array in ±1. receivedAt: when the last of them came.
  add(samples, receivedAt) {
    for (let begin = 0; begin < samples.length; ) {
      this.#filling ??= new Int16Array(Math.round(MESSAGE_S * this.#sampleRate));
      const count = Math.min(samples.length - begin, this.#filling.length - this.#numFilled);
      for (let i = 0; i < count; i++) {
        this.#filling[this.#numFilled + i] = 32767 * Math.max(-1, Math.min(1, samples[begin + i]));
      }
      begin += count;
      this.#numFilled += count;
      if (this.#numFilled === this.#filling.length) this.flush(receivedAt);
    }
  }

  // Completes the message, even if it is not full.
  flush(receivedAt) {
    if (!this.#numFilled) return;
    const startS = this.#numSamples / this.#sampleRate;
    this.#numSamples += this.#numFilled;
    const endS = this.#numSamples / this.#sampleRate;
    this.#messages.push({ samples: this.#filling.subarray(0, this.#numFilled), startS, endS, receivedAt });
    this.#filling = null;
    this.#numFilled = 0;
    const oldest = this.#messages[0];
    if (endS - oldest.startS > MAX_KEPT_S) {
      this.#lostS += oldest.endS - oldest.startS;
      this.drop(oldest.endS);
    }
  }

  // The next message; undefined if all are sent.
  next() {
    const message = this.#messages[this.#numSent];
    if (message) this.#numSent++;
    return message;
  }

  // A reply came: returns the message that it answers; undefined if none was open.
  answered() {
    return this.#numAnswered < this.#numSent ? this.#messages[this.#numAnswered++] : undefined;
  }

  get allSent() {
    return this.#numSent === this.#messages.length;
  }

  get numUnanswered() {
    return this.#numSent - this.#numAnswered;
  }

  // Seconds of audio not covered by a reply.
  get behindS() {
    return this.#numAnswered < this.#messages.length
      ? this.#messages.at(-1).endS - this.#messages[this.#numAnswered].startS : 0;
  }

  // Discards audio before untilS.
  drop(untilS) {
    let count = this.#messages.findIndex(({ endS }) => endS > untilS);
    if (count < 0) count = this.#messages.length;
    this.#messages.splice(0, count);
    this.#numSent = Math.max(0, this.#numSent - count);
    this.#numAnswered = Math.max(0, this.#numAnswered - count);
  }

  // Sends everything that is kept again, from startS on. lostS: seconds before it that were too old to be kept.
  rewind() {
    const lostS = this.#lostS;
    this.#numSent = this.#numAnswered = this.#lostS = 0;
    return { startS: this.#messages[0]?.startS ?? this.#numSamples / this.#sampleRate, lostS };
  }
}
