// Tests the captions of the demo page, with elements that keep only text and children.
import assert from "node:assert/strict";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const folder = await mkdtemp(join(tmpdir(), "captions-"));
await writeFile(join(folder, "package.json"), '{"type": "module"}'); // the folder of the page has none
for (const name of ["captions.js", "subtitles.js"]) {
  await copyFile(new URL(`../../web/${name}`, import.meta.url), join(folder, name));
}
const { Captions } = await import(pathToFileURL(join(folder, "captions.js")));
await rm(folder, { recursive: true });

class Element {
  children = [];
  text = "";
  get textContent() {
    return this.text + this.children.map((child) => child.textContent ?? child).join("");
  }
  set textContent(text) {
    [this.text, this.children] = [text, []];
  }
  get lastElementChild() {
    return this.children.at(-1);
  }
  append(...children) {
    for (const child of children) child.parent = this;
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.textContent = "";
    this.children = children;
    for (const child of children) if (typeof child === "object") child.parent = this;
  }
  remove() {
    this.parent.children.splice(this.parent.children.indexOf(this), 1);
  }
}
globalThis.document = { createElement: () => new Element() };

function page() {
  const [box, list, partial] = [{ scrollHeight: 0, scrollTop: 0, clientHeight: 0 }, new Element(), new Element()];
  return { box, list, partial, captions: new Captions(box, list, partial) };
}

function final(text, start) {
  const span = { start, end: start + 1 };
  return { type: "final", text, ...span, words: [{ word: text, ...span }] };
}

// Time, text and kind of each line.
const lines = ({ list }) =>
  list.children.map(({ children, className }) => [...children.map(({ text }) => text), className]);

test("finals have the times of the page", () => {
  const shown = page();
  shown.captions.show(final("One.", 5), 0);
  shown.captions.show(final("Two.", 3), 3600);
  shown.captions.show({ type: "gap", text: "lost", start: 60, end: 61, words: [] }, 3600);
  assert.deepEqual(lines(shown), [["0:05", "One.", ""], ["1:00:03", "Two.", ""], ["1:01:00", "lost", "remark"]]);
  assert.equal(shown.captions.endS, 3604);
  assert.equal(shown.captions.text, "One.\nTwo.");
  assert.match(shown.captions.srt, /^1\n00:00:05,000 .*\nOne\.\n\n2\n01:00:03,000 /);
});

test("stable words of a partial stand apart until its final", () => {
  const { captions, partial } = page();
  captions.show({ type: "partial", text: "one two three", numStable: 2 }, 0);
  assert.deepEqual([partial.children[0].text, partial.textContent], ["one two", "one two three"]);
  captions.show({ type: "partial", text: "one", numStable: 1 }, 0);
  assert.equal(partial.textContent, "one");
  captions.show(final("One.", 0), 0);
  assert.equal(partial.textContent, "");
});

test("what is not saved is known", () => {
  const { captions } = page();
  captions.show(final("One.", 0), 0);
  assert.ok(captions.unsaved);
  captions.saved();
  assert.ok(!captions.unsaved);
  captions.takeBack(); // the final of a connection that broke comes again
  captions.show(final("One more.", 0), 0);
  assert.ok(captions.unsaved);
  captions.saved();
  captions.clear();
  captions.restore();
  assert.ok(!captions.unsaved);
});

test("cleared captions come back until there is a new one", () => {
  const shown = page(), { captions } = shown;
  captions.show(final("One.", 0), 0);
  captions.clear();
  assert.deepEqual([captions.empty, captions.cleared, lines(shown)], [true, true, []]);
  captions.restore();
  assert.deepEqual([captions.text, captions.cleared, lines(shown)], ["One.", false, [["0:00", "One.", ""]]]);
  captions.clear();
  captions.show(final("Two.", 0), 0);
  assert.deepEqual([captions.text, captions.cleared], ["Two.", false]);
});

test("what is recognized again after a break comes back once", () => {
  const shown = page(), { captions } = shown;
  captions.show(final("One.", 0), 0);
  captions.show(final("Two.", 2), 0);
  captions.saved();
  captions.clear();
  captions.takeBack();
  captions.restore();
  assert.deepEqual([captions.text, captions.unsaved], ["One.", false]);
  captions.show(final("Two.", 2), 0);
  assert.deepEqual([captions.text, captions.unsaved, lines(shown).length], ["One.\nTwo.", true, 2]);
});

test("captions follow the last line unless the reader is elsewhere", () => {
  for (const [scrollTop, followed] of [[800, 1000], [100, 100]]) {
    const { box, captions } = page();
    Object.assign(box, { scrollHeight: 1000, scrollTop, clientHeight: 190 });
    captions.show(final("One.", 0), 0);
    assert.equal(box.scrollTop, followed);
  }
});
