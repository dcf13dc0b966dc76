// A segment, audio without a gap, and the network that it needs: the C++ Segment of a stream, and its caches.
//
// All of recognition but the network is in C++ (csrc/segment.h): features, chunks, searches, endpoints, words. It asks
// for work, and the answer is computed here.

export class Segment {
  #core;
  #model;
  #leftContext;
  #caches = new Map(); // of the stream (false), and of the second pass over an utterance (true)

  // core: a Segment of csrc/core.cc, which is freed by `delete`. leftContext: in encoder frames.
  constructor(core, model, leftContext) {
    this.#core = core;
    this.#model = model;
    this.#leftContext = leftContext;
  }

  // Continues with `samples`, Float32Array in ±1 or Int16Array, 16 kHz, appending what happens to `events`.
  async accept(samples, events) {
    for (let rest = samples; rest.length; ) {
      const used = rest instanceof Int16Array ? this.#core.acceptInt16(rest) : this.#core.acceptFloat32(rest);
      await this.#work(events);
      rest = rest.subarray(used);
    }
  }

  // Decodes what is left, ragged as it is, and ends the utterance.
  async finish(events) {
    this.#core.finish();
    await this.#work(events);
  }

  // Says that `count` samples were not finite, and were replaced before they came here.
  addNonfinite(count) {
    this.#core.addNonfinite(count);
  }

  delete() {
    this.#core.delete();
  }

  async #work(events) {
    for (let work = this.#core.work(); work; work = this.#core.work()) {
      if (work.features) {
        const cache = work.begins ? this.#model.initCache(this.#leftContext) : this.#caches.get(work.secondPass);
        const step = await this.#model.step(work.features, work.numFrames, work.numValid, cache);
        this.#caches.set(work.secondPass, step.cache);
        this.#core.stepped(step.logProbs, step.encoderOut, step.numFrames);
      } else {
        this.#core.scored(await this.#model.score(work.tokens, work.encoderOut, work.numFrames));
      }
    }
    this.#caches.delete(true);
    events.push(...this.#core.takeEvents());
  }
}
