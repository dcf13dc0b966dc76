// From `start` of a SpeechRecognition to its `end`: the microphone, a stream, and the events in their order.

import { Microphone, explain } from "../dist/microphone.js";
import { load } from "./background.js";
import {
  SpeechRecognitionAlternative, SpeechRecognitionErrorEvent, SpeechRecognitionEvent, SpeechRecognitionResult,
  SpeechRecognitionResultList, phrasesOf,
} from "./speech_events.js";

const SOUND_PEAK = 0.01; // of full scale: -40 dB
const NO_SPEECH_S = 8; // of audio without a word, after which a session ends that waits for one utterance
const MAX_OTHERS = 20; // alternatives beside the first, of the option maxAlternatives
const UNKNOWN = "[unk]"; // what is in no phrase of a grammar

// What an error event says.
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
  #open = []; // of audio, sound and speech those that have started and not ended
  #heard = false; // speech has started
  #failure = null; // which is told when the last words have come
  #finals = [];
  #interim = ""; // the transcript shown at last
  #wordsAtS = 0; // when there were words, in seconds of audio

  // options: {lang, continuous, interimResults, maxAlternatives, phrases, grammars, audioTrack}. fire(event): gets the
  // events in their order, each in a microtask of its own, never within a call of this object.
  constructor(options, fire) {
    this.#options = options;
    this.#fire = (event) => queueMicrotask(() => fire(event));
    this.#microphone = new Microphone({ block: (...block) => this.#block(...block), lost: () => this.#lost() });
    this.#start().catch((error) => this.#fail(error));
  }

  stop() {
    if (this.#state === "starting") this.#end();
    if (this.#state !== "listening") return;
    this.#state = "stopping";
    this.#microphone.close();
    if (this.#heard) this.#endAudio(); // else speech may start with the last words
    this.#stream.finish(performance.now());
  }

  abort() {
    this.#fail(new Failure("aborted", "the page called abort()"));
  }

  async #start() {
    const { lang, maxAlternatives, grammars, phrases, audioTrack } = this.#options;
    const recognizer = await load().catch(({ message }) => {
      throw new Failure("network", message);
    });
    if (!speaks(recognizer.language, lang)) {
      throw new Failure("language-not-supported", `lang is ${lang}; the model writes ${recognizer.language}`);
    }
    const changes = {
      ...(phrases.length && { hotwords: phrases.map(({ phrase, boost }) => `${phrase}:${boost}`) }),
      ...(grammars.length && { phrases: await phrasesOfAll(grammars) }),
      ...(maxAlternatives > 1 && { maxAlternatives: Math.min(maxAlternatives - 1, MAX_OTHERS) }),
    };
    if (this.#state === "over") return;
    const sampleRate = await this.#microphone.open("", audioTrack).catch((error) => {
      const isRefused = ["NotAllowedError", "SecurityError"].includes(error.name);
      throw new Failure(isRefused ? "not-allowed" : "audio-capture", explain(error));
    });
    if (this.#state === "over") {
      this.#microphone.close();
      return;
    }
    this.#stream = recognizer.stream(sampleRate, {
      opened: () => this.#listen(),
      events: (found) => this.#take(found),
      failed: ({ message }) => this.#fail(new Failure(this.#codeOfFailure(), message)),
      ended: () => this.#end(this.#failure),
    }, Object.keys(changes).length ? changes : null);
  }

  #codeOfFailure() {
    if (this.#state !== "starting") return "aborted";
    if (this.#options.grammars.length) return "bad-grammar";
    return this.#options.phrases.length ? "phrases-not-supported" : "aborted"; // else "greedy" has no alternatives
  }

  #listen() {
    if (this.#state === "over") return;
    this.#state = "listening";
    this.#fire(new Event("start"));
    this.#microphone.start();
  }

  #block(samples, peak) {
    if (this.#state !== "listening") return;
    this.#begin("audio");
    if (peak >= SOUND_PEAK) this.#begin("sound");
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
    const alternative = this.#alternative(event);
    if (alternative) this.#hearWords(audioS);
    const transcript = alternative?.transcript ?? "";
    if (!this.#options.interimResults || transcript === this.#interim) return;
    this.#interim = transcript;
    this.#fireResults("result", alternative ? [new SpeechRecognitionResult([alternative], false)] : []);
  }

  #showFinal(event, audioS) {
    const alternative = this.#alternative(event);
    this.#hearWords(audioS);
    this.#interim = "";
    const hasOthers = this.#options.maxAlternatives > 1 && !this.#options.grammars.length;
    const others = (hasOthers ? event.alternatives : []).map(({ text, confidence }) => this.#spaced(text, confidence));
    if (alternative) this.#fireResults("result", [new SpeechRecognitionResult([alternative, ...others], true)]);
    else this.#fireResults("nomatch", []);
    if (!this.#options.continuous) this.#end(this.#failure);
  }

  // null: no words, or with a grammar none of its phrases.
  #alternative({ text, raw, words, rawWords }) {
    const hasGrammar = this.#options.grammars.length > 0;
    const said = hasGrammar ? raw.split(" ").filter((word) => word !== UNKNOWN).join(" ").toLowerCase() : text;
    if (!said) return null;
    const sure = hasGrammar ? rawWords.filter(({ word }) => word !== UNKNOWN) : words;
    return this.#spaced(said, sure.reduce((sum, word) => sum + word.confidence, 0) / sure.length);
  }

  // Transcripts of a session that are put one after the other make a text.
  #spaced(text, confidence) {
    return new SpeechRecognitionAlternative(this.#finals.length ? ` ${text}` : text, confidence);
  }

  #fireResults(type, results) {
    const resultIndex = this.#finals.length;
    const list = new SpeechRecognitionResultList([...this.#finals, ...results]);
    this.#finals.push(...results.filter(({ isFinal }) => isFinal));
    this.#fire(new SpeechRecognitionEvent(type, { resultIndex, results: list }));
  }

  #hearWords(audioS) {
    this.#wordsAtS = audioS;
    this.#begin("sound");
    this.#begin("speech");
    this.#heard = true;
  }

  #begin(kind) {
    if (this.#open.includes(kind) || (this.#heard && kind !== "audio")) return;
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
    this.#stream?.close();
    this.#microphone.close();
    this.#endAudio();
    if (failure) {
      const error = failure.code ?? "aborted"; // else a mistake of this program
      this.#fire(new SpeechRecognitionErrorEvent("error", { error, message: failure.message }));
    }
    this.#fire(new Event("end"));
  }
}

// Whether a model that writes `language` serves a page that asks for `lang`, a tag of BCP 47; "" for any.
function speaks(language, lang) {
  try {
    return !lang || !language || new Intl.Locale(lang).language === language;
  } catch {
    return false;
  }
}

async function phrasesOfAll(grammars) {
  const texts = await Promise.all(grammars.map(async ({ src }) => {
    try {
      const { protocol, pathname } = new URL(src, document.baseURI);
      if (protocol === "data:") return decodeURIComponent(pathname.slice(pathname.indexOf(",") + 1));
      return await (await fetch(src)).text();
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
