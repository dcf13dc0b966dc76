// Tests the subtitles of the demo page: words with line breaks, which spoken commands make.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const source = await readFile(new URL("../../web/subtitles.js", import.meta.url)); // its folder has no package.json
const { srt } = await import(`data:text/javascript;base64,${source.toString("base64")}`);

test("line breaks within words do not end a cue", () => {
  const spoken = ["Dear all,", "\n\n", "thank\n\nyou", "  "];
  const words = spoken.map((word, i) => ({ word, start: i / 5, end: (i + 1) / 5 }));
  assert.equal(srt([{ words }]), "1\n00:00:00,000 --> 00:00:01,500\nDear all, thank you\n\n");
  assert.equal(srt([{ words: words.slice(1, 2) }]), "");
});
