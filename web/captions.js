// The captions so far: on the page, as text, as subtitles.

import { srt } from "./subtitles.js";

const AT_END = 40; // pixels

export class Captions {
  #box;
  #list;
  #partial;
  #finals = [];
  #cleared = null; // captions before clearing, until there is a new final
  #numSaved = 0;

  // box: the scrolling element; list: an <ol>; partial: the element for the current utterance.
  constructor(box, list, partial) {
    this.#box = box;
    this.#list = list;
    this.#partial = partial;
  }

  // event: {type, text, start, end, words}, see js/src/index.d.ts. Its times count from startS.
  show({ type, text, start, end, words, numStable }, startS) {
    // Do not scroll away from what the user reads.
    const atEnd = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < AT_END;
    if (type === "partial") this.#showPartial(text, numStable);
    if (type === "final") {
      const shifted = words.map((word) => ({ ...word, start: word.start + startS, end: word.end + startS }));
      this.#finals.push({ text, start: start + startS, end: end + startS, words: shifted });
      this.#cleared = null;
      this.#partial.textContent = "";
      this.#addLine(text, start + startS);
    }
    if (type === "gap" || type === "error") this.#addLine(text, start + startS, "remark");
    if (atEnd) this.#box.scrollTop = this.#box.scrollHeight;
  }

  takeBack() {
    const final = this.#finals.pop();
    if (!final) { // cleared in the meantime: Undo must not show it beside its second recognition
      if (this.#cleared?.finals.pop()) this.#cleared.lines.pop();
      return;
    }
    this.#list.lastElementChild.remove();
    this.#partial.textContent = final.text;
    this.#numSaved = Math.min(this.#numSaved, this.#finals.length);
  }

  get empty() {
    return !this.#finals.length;
  }
  // End of the last sentence, in the captions' time.
  get endS() {
    return this.#finals.at(-1)?.end ?? 0;
  }
  get cleared() {
    return this.#cleared !== null;
  }
  // Whether closing the page would lose captions.
  get unsaved() {
    return this.#finals.length > this.#numSaved;
  }
  get text() {
    return this.#finals.map(({ text }) => text).join("\n");
  }
  get srt() {
    return srt(this.#finals);
  }

  saved() {
    this.#numSaved = this.#finals.length;
  }

  clear() {
    this.#cleared = { finals: this.#finals, numSaved: this.#numSaved, lines: [...this.#list.children] };
    this.#finals = [];
    this.#numSaved = 0;
    this.#list.replaceChildren();
  }

  forgetCleared() {
    this.#cleared = null;
  }

  restore() {
    this.#finals = this.#cleared.finals;
    this.#numSaved = Math.min(this.#cleared.numSaved, this.#finals.length);
    this.#list.replaceChildren(...this.#cleared.lines);
    this.#cleared = null;
  }

  // Stable words look like finals.
  #showPartial(text, numStable) {
    const stable = document.createElement("span"), words = text.split(" ");
    stable.textContent = words.slice(0, numStable).join(" ");
    const rest = words.slice(numStable).join(" ");
    this.#partial.replaceChildren(...(numStable ? [stable, rest && ` ${rest}`] : [rest]));
  }

  #addLine(text, startS, kind = "") {
    const line = document.createElement("li"), time = document.createElement("time");
    const span = document.createElement("span");
    time.textContent = clock(startS);
    time.ariaHidden = "true"; // a screen reader would read it before every sentence
    span.textContent = text;
    line.className = kind;
    line.append(time, span);
    this.#list.append(line);
  }
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return [...(hours ? [hours, String(minutes).padStart(2, "0")] : [minutes]), String(rest).padStart(2, "0")].join(":");
}
