// The objects in the events of a SpeechRecognition, and the phrases that it accepts.

// An object with `length`, indexes and `item`, like the list interfaces of the Web API.
export class List {
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

// An expected phrase. boost: increase of its log-probability in nats, in [0, 10].
export class SpeechRecognitionPhrase {
  constructor(phrase, boost = 1) {
    if (!(boost >= 0 && boost <= 10)) throw new DOMException(`boost is ${boost}; it must be in [0, 10]`, "SyntaxError");
    this.phrase = String(phrase);
    this.boost = Number(boost);
    Object.freeze(this);
  }
}
