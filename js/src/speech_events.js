// What the events of a SpeechRecognition carry, and what it is given: the objects of the Web Speech API.

// An object with `length`, indexes and `item`, as lists of web interfaces have them.
class List {
  constructor(items) {
    Object.assign(this, items);
    Object.defineProperty(this, "length", { value: items.length });
  }

  item(index) {
    return this[index] ?? null;
  }

  get [Symbol.iterator]() {
    return Array.prototype[Symbol.iterator];
  }
}

export class SpeechRecognitionResultList extends List {}

export class SpeechRecognitionAlternative {
  constructor(transcript, confidence) {
    this.transcript = transcript;
    this.confidence = confidence;
    Object.freeze(this);
  }
}

export class SpeechRecognitionResult extends List {
  constructor(alternatives, isFinal) {
    super(alternatives);
    this.isFinal = isFinal;
    Object.freeze(this);
  }
}

export class SpeechRecognitionEvent extends Event {
  constructor(type, { resultIndex = 0, results, ...init }) {
    super(type, init);
    this.resultIndex = resultIndex;
    this.results = results;
  }
}

export class SpeechRecognitionErrorEvent extends Event {
  constructor(type, { error, message = "", ...init }) {
    super(type, init);
    this.error = error;
    this.message = message;
  }
}

// A phrase that is expected. boost: nats for each of its letters, in [0, 10].
export class SpeechRecognitionPhrase {
  constructor(phrase, boost = 1) {
    if (!(boost >= 0 && boost <= 10)) throw new DOMException(`boost is ${boost}; it must be in [0, 10]`, "SyntaxError");
    this.phrase = String(phrase);
    this.boost = Number(boost);
    Object.freeze(this);
  }
}

export class SpeechGrammar {
  src = "";
  weight = 1;
}

export class SpeechGrammarList {
  #length = 0;

  get length() {
    return this.#length;
  }
  get [Symbol.iterator]() {
    return Array.prototype[Symbol.iterator];
  }

  item(index) {
    return this[index] ?? null;
  }

  addFromString(string, weight = 1) {
    this.addFromUri(`data:application/jsgf,${encodeURIComponent(string)}`, weight);
  }

  addFromUri(src, weight = 1) {
    this[this.#length++] = Object.assign(new SpeechGrammar(), { src: String(src), weight });
  }

  addFromURI(src, weight) { // as some browsers spell it
    this.addFromUri(src, weight);
  }
}

const RULE = /(?:public\s+)?<([^>]*)>\s*=([^;]*);/g;
const HEADER = /^\uFEFF?\s*#JSGF[^;]*;\s*grammar\s+[\w.-]+\s*;/;

// The phrases of a grammar in JSGF whose rules are words with | between them. Throws an Error for any other.
export function phrasesOf(jsgf) {
  const text = jsgf.replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, "");
  const rules = [...text.replace(HEADER, "").matchAll(RULE)];
  const rest = text.replace(HEADER, "").replace(RULE, "").trim();
  if (!HEADER.test(text) || rest || !rules.length) {
    throw new Error(`a grammar begins "#JSGF V1.0; grammar name;" and has rules "public <name> = word | word ...;"`);
  }
  return rules.flatMap(([, name, alternatives]) => alternatives.split("|").map((phrase) => {
    if (!phrase.trim() || /[<>()[\]{}*+/\\]/.test(phrase)) {
      throw new Error(`rule <${name}> has "${phrase.trim()}": only words with | between them are known`);
    }
    return phrase.trim().replaceAll(/\s+/g, " ");
  }));
}
