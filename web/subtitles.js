// Finals as SRT, with the same cues as asr.streaming.terminal.cues: one or two lines of at most 42 characters, 1 to
// 7 seconds, cut at punctuation and pauses into parts of similar length. That module gives the reasons.

const LINE_LENGTH = 42;
const MIN_CUE_S = 1.0;
const MAX_CUE_S = 7.0;
const LINGER_S = 0.5; // a cue stays this long after its last word
const GAP_S = 1 / 12; // between two cues
const MIN_GAP_S = 0.5; // a shorter gap would flicker
const PAUSE_S = 0.5;
const SENTENCE_END = 1.0; // value of a cut after a punctuation mark, in pauses of PAUSE_S
const COMMA = 0.4;
const WEAK = -0.3; // after a word of BINDING
const TITLES = ["Mr.", "Mrs.", "Dr.", "St."];
const BINDING = new Set(`
  a an the this that these those my your his her its our their no some any every each
  of in on at to from for with by into onto over under about between through during without against
  and or but nor if as than because while when where which who whom whose
  i we they he she is are was were be been has have had do does did can could will would shall should may might must not
  mr mrs dr st
`.split(/\s+/)); // words that belong to the following word

// finals: [{words: [{word, start, end}, ...]}, ...], times in seconds.
export function srt(finals) {
  const blocks = [];
  let held = null, endS = 0; // the last cue, whose end depends on the next one
  const settle = (nextS) => {
    if (!held) return;
    endS = standsUntil(held, Math.max(nextS, held.endS));
    blocks.push(`${blocks.length + 1}\n${time(held.startS)} --> ${time(endS)}\n${held.lines.join("\n")}\n\n`);
  };
  for (const { words } of finals) {
    for (const cue of cut(spelled(words))) {
      const startS = Math.max(cue[0].start, held ? held.endS : endS);
      settle(startS);
      const spanS = Math.min(Math.max(cue.at(-1).end - startS, MIN_CUE_S), MAX_CUE_S);
      held = { startS, endS: startS + spanS, lines: lines(cue) };
    }
  }
  settle(Infinity);
  return blocks.join("");
}

// The end of a cue whose words end at `endS`, before the next cue begins.
function standsUntil({ startS, endS }, nextS) {
  let end = Math.min(endS + LINGER_S, nextS - GAP_S);
  if (nextS - end < MIN_GAP_S) end = nextS - GAP_S;
  return Math.min(Math.max(end, startS + MIN_CUE_S), startS + MAX_CUE_S, nextS);
}

function time(seconds) {
  const ms = Math.round(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const whole = Math.floor(ms / 1000);
  return `${two(Math.floor(whole / 3600))}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)},` +
    String(ms % 1000).padStart(3, "0");
}

// Words, with those longer than a line split into pieces that share the time.
function spelled(words) {
  return words.flatMap(({ word, start, end }) => {
    const whole = word.trim().replaceAll(/\s+/g, " "); // an empty line would end the cue
    const count = Math.ceil(whole.length / LINE_LENGTH);
    const step = (end - start) / count;
    return Array.from({ length: count }, (_, i) => ({
      word: whole.slice(i * LINE_LENGTH, (i + 1) * LINE_LENGTH), start: start + i * step, end: start + (i + 1) * step,
    }));
  });
}

// One line, or two of similar length; none if more are needed.
function lines(words) {
  const text = words.map(({ word }) => word).join(" ");
  if (text.length <= LINE_LENGTH) return [text];
  let middle = 0, least = Infinity;
  for (let i = text.indexOf(" "); i >= 0 && i <= LINE_LENGTH; i = text.indexOf(" ", i + 1)) {
    const unlike = Math.abs(text.length - 1 - 2 * i) - LINE_LENGTH * markOf(text.slice(0, i));
    if (text.length - i - 1 <= LINE_LENGTH && unlike < least) [middle, least] = [i, unlike];
  }
  return middle ? [text.slice(0, middle), text.slice(middle + 1)] : [];
}

// The words of the cues: the cuts with the lowest total cost (dynamic programming from the end).
function cut(words) {
  const best = Array(words.length + 1); // for the words from i on: cost, end of the first cue
  best[words.length] = { cost: 0, end: words.length };
  for (let i = words.length - 1; i >= 0; i--) {
    for (let end = i + 1; end <= words.length; end++) {
      const cost = costOf(words.slice(i, end));
      if (cost === null && end > i + 1) break; // more words do not fit either
      const pauseS = end < words.length ? words[end].start - words[end - 1].end : PAUSE_S;
      const mark = end < words.length ? markOf(words[end - 1].word) : 0;
      const whole = (cost ?? 0) + 1 - pauseS / PAUSE_S - mark + best[end].cost;
      if (!best[i] || whole < best[i].cost) best[i] = { cost: whole, end };
    }
  }
  const cues = [];
  for (let i = 0; i < words.length; i = best[i].end) cues.push(words.slice(i, best[i].end));
  return cues;
}

// Value of a cut after `text`, by its last word. The periods of "Mr." and "p.m." do not count.
function markOf(text) {
  const word = text.slice(text.lastIndexOf(" ") + 1);
  if (BINDING.has(word.toLowerCase().replace(/\.+$/, "")) && (TITLES.includes(word) || !word.endsWith("."))) return WEAK;
  if (/[.?!]$/.test(word) && !word.slice(0, -1).includes(".") && !TITLES.includes(word)) return SENTENCE_END;
  return /[,;:]$/.test(word) ? COMMA : 0;
}

// Cost of a cue: fullness, so that parts have similar length, and a too short time. null: it does not fit.
function costOf(words) {
  const shown = lines(words);
  const spanS = words.at(-1).end - words[0].start;
  if (!shown.length || spanS > MAX_CUE_S) return null;
  const fullness = shown.reduce((sum, line) => sum + line.length, 0) / (2 * LINE_LENGTH);
  return fullness ** 2 + 2 * Math.max(0, MIN_CUE_S - spanS);
}
