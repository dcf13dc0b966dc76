// A session of a SpeechRecognition, from `start` to `end`: the microphone, a stream, and the events in their order.

import { Microphone, explain } from "../dist/microphone.js";
import { load } from "./background.js";
import {
  SpeechRecognitionAlternative, SpeechRecognitionErrorEvent, SpeechRecognitionEvent, SpeechRecognitionResult,
  SpeechRecognitionResultList,
} from "./speech_events.js";
import { phrasesOf, wordsOfPhrases } from "./speech_grammar.js";

const SOUND_PEAK = 0.01; // relative to full scale: -40 dB
const NO_SPEECH_S = 8; // a session for one utterance ends after this much audio without a word
const NO_AUDIO_MS = 10_000; // time after `start` without audio from the browser
const MAX_OTHERS = 20; // maximum of the option maxAlternatives, without the first

// The reason for an error event.
class Failure extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class Session {
  #options;
  #fire;
  #microphone;
  #stream = null;
  #state = "starting"; // "listening", "stopping": the last words are on their way, "over"
  #phrases = null; // phrases of the grammars
  #audioTimer = null;
  #open = []; // those of audio, sound and speech that have started but not ended
  #heard = false; // whether speech has started
  #failure = null; // reported after the last words
  #finals = [];
  #interim = ""; // the transcript of the last interim result
  #wordsAtS = 0; // when the last words came, in seconds of audio

  // options: {lang, continuous, interimResults, maxAlternatives, phrases, grammars, audioTrack}. fire(event): receives
  // the events in order, each in its own microtask or task, never within a call of this object.
  constructor(options, fire) {
    this.#options = options;
    this.#fire = (event) => queueMicrotask(() => fire(event));
    this.#microphone = new Microphone({ block: (...block) => this.#block(...block), lost: () => this.#lost() });
    this.#start().catch((error) => this.#fail(error));
  }

  stop() {
    if (this.#state === "starting") this.#end(this.#failure);
    if (this.#state !== "listening") return;
    this.#state = "stopping";
    clearTimeout(this.#audioTimer);
    this.#microphone.close();
    if (this.#heard) this.#endAudio(); // otherwise speech may start with the last words
    this.#stream.finish(performance.now());
  }

  abort() {
    this.#fail(new Failure("aborted", "the page called abort()"));
  }

  async #start() {
    const { lang, grammars, audioTrack } = this.#options;
    const recognizer = await load().catch(({ message }) => {
      throw new Failure("network", message);
    });
    if (!recognizer.speaks(lang)) {
      throw new Failure("language-not-supported", `lang is ${lang}; the model writes ${recognizer.language}`);
    }
    if (grammars.length) this.#phrases = await phrasesOfAll(grammars);
    if (this.#state === "over") return;
    const sampleRate = await this.#microphone.open("", audioTrack).catch((error) => {
      const isRefused = ["NotAllowedError", "SecurityError"].includes(error.name);
      throw new Failure(isRefused ? "not-allowed" : "audio-capture", explain(error));
    });
    if (this.#state === "over") return;
    this.#stream = recognizer.stream(sampleRate, {
      opened: (opened) => this.#listen(opened),
      events: (found) => this.#take(found),
      failed: ({ message }) => this.#fail(new Failure(this.#codeOfFailure(), message)),
      ended: () => this.#end(this.#failure),
    }, this.#changes(recognizer));
    this.#microphone.start(); // the worker may still be busy with other streams: what is said until then waits there
  }

  // The options that the page requests from the recognizer.
  #changes({ hotwords }) {
    const { maxAlternatives, phrases } = this.#options;
    const hints = [...(this.#phrases ?? []), ...phrases.flatMap(hotwordOf)];
    return {
      ...(hints.length && { hotwords: [...hotwords, ...hints] }),
      ...(maxAlternatives > 1 && { maxAlternatives: Math.min(maxAlternatives - 1, MAX_OTHERS) }),
      ...(this.#phrases && { maxAlternatives: MAX_OTHERS, text: "plain" }), // any of them may be a phrase
    };
  }

  #codeOfFailure() {
    if (this.#state !== "starting") return "aborted";
    if (this.#phrases) return "bad-grammar";
    return this.#options.phrases.length ? "phrases-not-supported" : "aborted"; // "greedy" has no alternatives
  }

  #listen({ warnings }) {
    if (this.#state === "over") return;
    if (this.#phrases && warnings.length) {
      this.#fail(new Failure("bad-grammar", warnings[0]));
      return;
    }
    this.#state = "listening";
    this.#fire(new Event("start"));
    const failure = new Failure("audio-capture", "the browser gives no audio: call start() in a click");
    this.#audioTimer = setTimeout(() => this.#fail(failure), NO_AUDIO_MS);
  }

  #block(samples, peak) {
    if (this.#state === "listening") {
      clearTimeout(this.#audioTimer);
      this.#begin("audio");
      if (peak >= SOUND_PEAK) this.#begin("sound");
    }
    this.#stream.accept(samples, performance.now());
  }

  #lost() {
    if (!this.#options.audioTrack) {
      this.#failure = new Failure("audio-capture", "the microphone was disconnected: plug it in, and start again");
    }
    this.stop();
  }

  #take({ events, audioS }) {
    for (const event of events) {
      if (this.#state === "over") return;
      if (event.type === "partial") this.#showPartial(event, audioS);
      if (event.type === "final") this.#showFinal(event, audioS);
    }
    if (this.#state === "listening" && !this.#options.continuous && audioS - this.#wordsAtS >= NO_SPEECH_S) {
      this.#fail(new Failure("no-speech", `there was no word in ${NO_SPEECH_S} s`));
    }
  }

  #showPartial(event, audioS) {
    if (event.text) this.#hearWords(audioS);
    const [alternative] = this.#alternatives(event);
    const transcript = alternative?.transcript ?? "";
    if (!this.#options.interimResults || transcript === this.#interim) return;
    this.#interim = transcript;
    // Apps read the first alternative of every result, so one that is withdrawn is empty, not absent.
    const shown = alternative ?? new SpeechRecognitionAlternative("", 0);
    this.#fireResults("result", [new SpeechRecognitionResult([shown], false)]);
  }

  #showFinal(event, audioS) {
    const alternatives = this.#alternatives(event);
    this.#hearWords(audioS);
    this.#interim = "";
    if (!this.#options.continuous || this.#state === "stopping") this.#endAudio();
    if (alternatives.length) this.#fireResults("result", [new SpeechRecognitionResult(alternatives, true)]);
    else this.#fireResults("nomatch", []);
    if (!this.#options.continuous) this.#end(this.#failure);
  }

  // Empty if there are no words, or with grammars, none of their phrases. The joined transcripts of a session form a
  // text.
  #alternatives(event) {
    const space = this.#finals.length ? " " : "";
    const found = new Map(); // by transcript
    for (const { text, words, confidence } of [event, ...(event.alternatives ?? [])]) {
      const sure = this.#phrases ? wordsOfPhrases(words, this.#phrases) : words;
      const transcript = space + (this.#phrases ? sure.map(({ word }) => word).join(" ") : text);
      if (transcript === space || found.has(transcript)) continue;
      const mean = sure.reduce((sum, word) => sum + word.confidence, 0) / sure.length;
      found.set(transcript, new SpeechRecognitionAlternative(transcript, confidence ?? mean));
    }
    return [...found.values()].slice(0, Math.max(1, this.#options.maxAlternatives));
  }

  #fireResults(type, results) {
    const resultIndex = this.#finals.length;
    const list = new SpeechRecognitionResultList([...this.#finals, ...results]);
    this.#finals.push(...results.filter(({ isFinal }) => isFinal));
    this.#fire(new SpeechRecognitionEvent(type, { resultIndex, results: list }));
  }

  #hearWords(audioS) {
    this.#wordsAtS = audioS;
    this.#begin("audio");
    this.#begin("sound");
    this.#begin("speech");
    this.#heard = true;
  }

  #begin(kind) {
    if (this.#open.includes(kind) || this.#heard) return;
    this.#open.push(kind);
    this.#fire(new Event(`${kind}start`));
  }

  #endAudio() {
    for (const kind of this.#open.splice(0).reverse()) this.#fire(new Event(`${kind}end`));
  }

  #fail(failure) {
    if (this.#state !== "over") this.#end(failure);
  }

  #end(failure = null) {
    this.#state = "over";
    clearTimeout(this.#audioTimer);
    this.#stream?.close();
    this.#microphone.close();
    this.#endAudio();
    // Before there is a stream, nothing may have waited for the browser: microtasks alone would freeze a page that
    // starts again in `end`. Later ones are not delayed by timers, which are slow in a hidden page.
    const fire = this.#stream ? this.#fire : (event) => setTimeout(() => this.#fire(event));
    if (failure) {
      const error = failure.code ?? "aborted"; // without a code, it is a bug in this program
      fire(new SpeechRecognitionErrorEvent("error", { error, message: failure.message }));
    }
    fire(new Event("end"));
  }
}

// A line of the option hotwords, whose boost is per letter; empty for a phrase that is not boosted.
function hotwordOf({ phrase, boost }) {
  const words = phrase.replaceAll(/[\s=:]+/g, " ").trim();
  const numLetters = [...words.replaceAll(" ", "")].length; // as the core counts them: code points without spaces
  return numLetters && boost > 0 ? [`${words}:${boost / numLetters}`] : [];
}

async function phrasesOfAll(grammars) {
  const texts = await Promise.all(grammars.map(async ({ src }) => {
    try {
      const { protocol, pathname } = new URL(src, document.baseURI);
      if (protocol === "data:") return decodeURIComponent(pathname.slice(pathname.indexOf(",") + 1));
      const response = await fetch(src);
      if (!response.ok) throw new Error(`the server answers ${response.status}`);
      return await response.text();
    } catch ({ message }) {
      throw new Failure("bad-grammar", `the grammar ${src} cannot be loaded: ${message}`);
    }
  }));
  try {
    return texts.flatMap(phrasesOf);
  } catch ({ message }) {
    throw new Failure("bad-grammar", message);
  }
}
