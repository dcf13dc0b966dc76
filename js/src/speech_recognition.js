// SpeechRecognition of the Web Speech API, on this device: see speech_recognition.d.ts. Importing this file replaces
// the browser's own, if there is one.

import { availability, load } from "./background.js";
import {
  SpeechRecognitionAlternative, SpeechRecognitionErrorEvent, SpeechRecognitionEvent, SpeechRecognitionPhrase,
  SpeechRecognitionResult, SpeechRecognitionResultList,
} from "./speech_events.js";
import { SpeechGrammar, SpeechGrammarList } from "./speech_grammar.js";
import { Session } from "./speech_session.js";

const EVENTS = [
  "start", "audiostart", "soundstart", "speechstart", "speechend", "soundend", "audioend", "result", "nomatch", "error",
  "end",
];
// The conversion of a value assigned to each attribute.
const CONVERSIONS = {
  lang: String, continuous: Boolean, interimResults: Boolean, processLocally: Boolean,
  maxAlternatives: (value) => value >>> 0, grammars: (value) => checked(value, SpeechGrammarList),
};

export class SpeechRecognition extends EventTarget {
  static load(options, progress) {
    return load(options, progress).then(() => {});
  }

  static async available({ langs }) {
    return availability(langs);
  }

  static async install({ langs }) {
    await load().catch(() => {});
    return availability(langs) === "available";
  }

  #values = {
    lang: "", continuous: false, interimResults: false, processLocally: false, maxAlternatives: 1,
    grammars: new SpeechGrammarList(),
  };
  #phrases = [];
  #handlers = {};
  #session = null;

  static {
    const define = (name, get, set) =>
      Object.defineProperty(this.prototype, name, { get, set, enumerable: true, configurable: true });
    for (const [name, convert] of Object.entries(CONVERSIONS)) {
      define(name, function () {
        return this.#values[name];
      }, function (value) {
        this.#values[name] = convert(value);
      });
    }
    for (const type of EVENTS) {
      define(`on${type}`, function () {
        return this.#handlers[type] ?? null;
      }, function (handler) {
        if (!(type in this.#handlers)) this.addEventListener(type, (event) => this.#handlers[type]?.call(this, event));
        this.#handlers[type] = typeof handler === "function" ? handler : null;
      });
    }
  }

  get phrases() {
    return this.#phrases;
  }
  set phrases(phrases) {
    this.#phrases = Array.from(phrases, (phrase) => checked(phrase, SpeechRecognitionPhrase));
  }

  start(audioTrack = null) {
    if (audioTrack) {
      checked(audioTrack, MediaStreamTrack);
      if (audioTrack.kind !== "audio" || audioTrack.readyState !== "live") {
        const what = `${audioTrack.readyState} ${audioTrack.kind}`;
        throw new DOMException(`the track is ${what}; it must be live audio`, "InvalidStateError");
      }
    }
    if (this.#session) throw new DOMException("recognition has already started", "InvalidStateError");
    const { continuous, interimResults, maxAlternatives, grammars, phrases } = this;
    const lang = this.lang || document.documentElement.lang;
    const session = new Session({
      lang, continuous, interimResults, maxAlternatives, grammars: [...grammars], phrases: [...phrases], audioTrack,
    }, (event) => {
      const isOver = event.type === "error" || event.type === "end"; // a handler of either event may call start() again
      if (isOver && this.#session === session) this.#session = null;
      this.dispatchEvent(event);
    });
    this.#session = session;
  }

  stop() {
    this.#session?.stop();
  }

  abort() {
    this.#session?.abort();
  }
}

function checked(value, kind) {
  if (!(value instanceof kind)) throw new TypeError(`${value} is not a ${kind.name}`);
  return value;
}

export {
  SpeechGrammar, SpeechGrammarList, SpeechRecognitionAlternative, SpeechRecognitionErrorEvent, SpeechRecognitionEvent,
  SpeechRecognitionPhrase, SpeechRecognitionResult, SpeechRecognitionResultList,
};

if (typeof window === "object") {
  Object.assign(window, {
    SpeechGrammar, SpeechGrammarList, SpeechRecognition, SpeechRecognitionAlternative, SpeechRecognitionErrorEvent,
    SpeechRecognitionEvent, SpeechRecognitionPhrase, SpeechRecognitionResult, SpeechRecognitionResultList,
    webkitSpeechGrammarList: SpeechGrammarList, webkitSpeechRecognition: SpeechRecognition,
    webkitSpeechRecognitionError: SpeechRecognitionErrorEvent, webkitSpeechRecognitionEvent: SpeechRecognitionEvent,
  });
}
