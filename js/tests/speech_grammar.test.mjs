// Tests the grammars of SpeechRecognition: their phrases, and the words of a sentence that match them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechGrammarList, phrasesOf, wordsOfPhrases } from "../src/speech_grammar.js";

const HEADER = "#JSGF V1.0 UTF-8 en; grammar lights;\n";

test("rules are lists of phrases", () => {
  const rules = "public <color> = Red | dark  green ; // the end; of it\n/* <no> = [rule]; */ <state> = on|off;";
  assert.deepEqual(phrasesOf(HEADER + rules), ["red", "dark green", "on", "off"]);
});

test("other grammars are refused", () => {
  const others = [
    "public <a> = red;", HEADER, `${HEADER}public <a> = turn [it] on;`, `${HEADER}public <a> = <b>;`,
    `${HEADER}public <a> = red | ;`, `${HEADER}public <a> = /10/ red;`, `${HEADER}public <a> = red`,
  ];
  for (const text of others) assert.throws(() => phrasesOf(text), /grammar begins|rule <a> has/, text);
});

test("the longer of two phrases is found, and words between phrases are left out", () => {
  const words = "Please DARK Green light and off".split(" ").map((word, i) => ({ word, confidence: i / 10 }));
  assert.deepEqual(wordsOfPhrases(words, ["dark", "dark green light", "green", "off", "of"]), [
    { word: "dark", confidence: 0.1 }, { word: "green", confidence: 0.2 }, { word: "light", confidence: 0.3 },
    { word: "off", confidence: 0.5 },
  ]);
  assert.deepEqual(wordsOfPhrases(words, ["green dark", "the"]), []);
});

test("a list of grammars is filled by texts and by addresses", () => {
  const list = new SpeechGrammarList();
  list.addFromString("a | b", 0.5);
  list.addFromURI("lights.jsgf");
  assert.deepEqual(Array.from(list, ({ src, weight }) => [src, weight]), [
    ["data:application/jsgf,a%20%7C%20b", 0.5], ["lights.jsgf", 1],
  ]);
  assert.equal(list.length, 2);
  assert.equal(list.item(1).src, list[1].src);
  assert.equal(list.item(2), null);
});
