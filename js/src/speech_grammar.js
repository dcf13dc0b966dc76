// The grammars of a SpeechRecognition: lists of phrases in JSGF, and the words of a sentence that match them.

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
    this[this.#length++] = Object.assign(new SpeechGrammar(), { src: String(src), weight: Number(weight) });
  }

  addFromURI(src, weight) { // Chrome's spelling
    this.addFromUri(src, weight);
  }
}

const RULE = /(?:public\s+)?<([^>]*)>\s*=([^;]*);/g;
const HEADER = /^\uFEFF?\s*#JSGF[^;]*;\s*grammar\s+[\w.-]+\s*;/;

// The phrases of a JSGF grammar whose rules are words with | between them. Throws an Error for any other grammar.
export function phrasesOf(jsgf) {
  const text = jsgf.replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, "");
  const body = text.replace(HEADER, "");
  const rules = [...body.matchAll(RULE)];
  if (!HEADER.test(text) || body.replace(RULE, "").trim() || !rules.length) {
    throw new Error(`a grammar begins "#JSGF V1.0; grammar name;" and has rules "public <name> = word | word ...;"`);
  }
  return rules.flatMap(([, name, alternatives]) => alternatives.split("|").map((phrase) => {
    if (!phrase.trim() || /[<>()[\]{}*+=:/\\]/.test(phrase)) {
      throw new Error(`rule <${name}> has "${phrase.trim()}"; a rule is a list of words with | between them`);
    }
    return phrase.trim().toLowerCase().replaceAll(/\s+/g, " ");
  }));
}

// The phrases found among `words`, recognized words {word, confidence}, in lower case. Of two phrases that begin with
// the same word, the longer one is found.
export function wordsOfPhrases(words, phrases) {
  const said = words.map(({ word, confidence }) => ({ word: word.toLowerCase(), confidence }));
  const longestFirst = phrases.map((phrase) => phrase.split(" ")).sort((one, other) => other.length - one.length);
  const found = [];
  for (let at = 0; at < said.length; ) {
    const phrase = longestFirst.find((each) => each.every((word, i) => said[at + i]?.word === word));
    if (phrase) found.push(...said.slice(at, at + phrase.length));
    at += phrase?.length ?? 1;
  }
  return found;
}
