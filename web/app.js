// The page: connects microphone, files, recognition and captions with the controls.
//
// An engine recognizes: web/engine.js sends audio to the server; js/web/engine.js recognizes in the browser.
//   FIGURES                   [[id, title], ...], shown next to the latency
//   createEngine(page)        an engine, which calls the methods of `page` below
//   engine.load()             resolves when it can listen; rejects with an Error whose message is a sentence
//   engine.begin(sampleRate), engine.audio(samples, receivedAt)..., engine.end(): then it calls page.ended()
//   engine.behindS            seconds of audio not yet recognized
//   engine.abandon?.()        stops waiting for the last words

import { Captions } from "./captions.js";
import { FIGURES, createEngine } from "./engine.js";
import { decode, feed } from "./file.js";
import { Microphone, explain } from "./microphone.js";

const NUM_LATENCIES = 20; // the maximum of this many is shown
const PATIENCE_MS = 3000; // wait for the last words before the user may stop waiting
const SILENCE_MS = 6000; // until the overlay is cleared
const RETRY_MS = 3000; // until the overlay asks for the microphone again
// /?overlay: the last lines over a video, for a browser source of OBS. It starts without a key press.
const QUERY = new URLSearchParams(location.search);
const OVERLAY = QUERY.has("overlay");
// A color may lack its #, which a URL cannot contain.
const color = (text) => [text, `#${text}`].find((name) => CSS.supports("color", name));
// What the query may set: its form in style.css, nothing if it is wrong; and its range.
const STYLES = {
  lines: [(text) => /^[1-9]$/.test(text) && text, "a number from 1 to 9"],
  size: [(text) => /^\d{1,3}$/.test(text) && text >= 8 && `${text}px`, "pixels from 8 to 999"],
  color: [color, "a color of CSS, such as yellow or ffcc00"],
  background: [color, "a color of CSS, such as black or 000000a0"],
};

const $ = (id) => document.getElementById(id);
const captions = new Captions($("captions"), $("finals"), $("partial"));
let listening = false;
let reading = false; // whether a file is the source
let complete = false; // whether all of the file has been passed to the engine
let recognized = false; // whether the source has had a final
let busy = false; // the microphone is being opened, or the last words are awaited
let again = false; // start again after the last words
let asksAgain = false; // the overlay asks for a microphone that is not there
let patience;
let latencies = [];
let beganAt; // performance.now() at 0:00 of the captions
let startS = 0; // start of the stream in the captions' time
let wakeLock = null;
let blank;

// --- methods for the engine ---

const page = {
  // share: how much of it is done, 0 to 1, shown as a bar; null while that is not known.
  status(text, share) {
    if ($("status").textContent !== text) $("status").textContent = text;
    $("progress").hidden = share === undefined;
    if (typeof share === "number") $("progress").value = share;
    else $("progress").removeAttribute("value");
  },
  figure(id, text) {
    $(id).textContent = text;
  },
  // A sentence; "" clears the error.
  showError(text) {
    $("error").textContent = text;
    $("error-box").hidden = !text;
  },
  // receivedAt: time at which the last audio of these events came from the microphone.
  show(events, receivedAt) {
    for (const event of events) captions.show(event, startS);
    if (!events.length) return;
    recognized ||= events.some(({ type }) => type === "final");
    if (OVERLAY) blankAfterSilence();
    showTools();
    if (reading) return; // pieces of a file are queued
    latencies = [...latencies, performance.now() - receivedAt].slice(-NUM_LATENCIES);
    page.figure("latency", `${Math.max(...latencies).toFixed(0)} ms`);
  },
  // Withdraws the last final: it becomes a partial again.
  takeBack() {
    captions.takeBack();
    showTools();
  },
  ended() {
    clearTimeout(patience);
    page.status(!complete ? "Stopped." : recognized ? "Done." : "No speech was recognized.");
    reading = false;
    $("listen").textContent = "Start listening";
    setBusy(false);
    if (again) start();
    again = false;
  },
  // Reports that the engine cannot continue.
  failed(text) {
    page.status("");
    page.showError(text);
    complete = false;
    stop();
  },
  // Resolves to the token that the user entered, or null.
  askForToken(hint) {
    $("token-hint").textContent = hint;
    $("token").value = "";
    $("token-dialog").returnValue = ""; // closed by Escape
    $("token-dialog").showModal();
    return new Promise((resolve) => {
      $("token-dialog").addEventListener("close", () => {
        resolve($("token-dialog").returnValue === "ok" ? $("token").value : null);
      }, { once: true });
    });
  },
};
const engine = createEngine(page);

// --- microphone ---

const microphone = new Microphone({
  block(samples, peak) {
    showLevel(peak);
    engine.audio(samples, performance.now());
  },
  lost() {
    stop();
    asksAgain = OVERLAY;
    page.showError(`The microphone was disconnected: plug it in again${OVERLAY ? "" : ", and start again"}.`);
  },
});

// Takes decibels above -60 dBFS.
function showLevel(peak) {
  const level = Math.max(0, Math.min(60, Math.round(60 + 20 * Math.log10(peak))));
  $("level").ariaValueNow = level;
  $("level").firstElementChild.style.transform = `scaleX(${level / 60})`;
}

async function start() {
  asksAgain = false;
  setBusy(true);
  page.showError("");
  page.status("Waiting for the microphone …");
  try {
    begin(await microphone.open($("device").value));
    microphone.start();
    $("listen").textContent = "Stop listening";
    listDevices(); // browsers name them only after permission was given
  } catch (error) {
    await microphone.close();
    asksAgain = OVERLAY && !["NotAllowedError", "SecurityError"].includes(error.name);
    page.status("");
    page.showError(explain(error));
  }
  setBusy(false);
}

function begin(sampleRate) {
  const now = performance.now();
  if (captions.empty) {
    captions.forgetCleared(); // its times would not match later ones
    beganAt = now;
  }
  // A file is captioned faster than it plays: later audio begins after its end.
  startS = Math.max(captions.endS, reading ? 0 : (now - beganAt) / 1000);
  latencies = [];
  complete = recognized = false;
  engine.begin(sampleRate);
  setListening(true);
  keepAwake();
  showTools();
}

async function captionFile(file) {
  if ($("listen").disabled) return; // the status or the error says why
  if (listening || busy) {
    page.showError("A file cannot be captioned while listening: stop listening, and drop it again.");
    return;
  }
  setBusy(true);
  page.showError("");
  page.status(`Reading ${file.name} …`);
  const { error, sampleRate, samples } = await decode(file);
  setBusy(false);
  if (error) {
    page.status("Ready.");
    page.showError(error);
    return;
  }
  reading = true;
  begin(sampleRate);
  $("listen").textContent = "Stop";
  await feed(samples, engine, () => !listening, (share) => {
    page.status(`Captioning ${file.name}: ${(100 * share).toFixed(0)} %`, share);
  });
  complete = listening; // nobody stopped it
  stop();
}

function stop() {
  if (!listening) return;
  setListening(false);
  microphone.close();
  showLevel(0);
  wakeLock?.release();
  setBusy(true);
  $("listen").textContent = "Finishing …";
  if (engine.abandon) {
    patience = setTimeout(() => {
      $("listen").textContent = "Do not wait";
      $("listen").ariaDisabled = "false";
    }, PATIENCE_MS);
  }
  engine.end();
}

async function listDevices() {
  const devices = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  const chosen = $("device").value || localStorage.getItem("device");
  const options = devices
    .filter(({ kind, deviceId }) => kind === "audioinput" && deviceId && deviceId !== "default")
    .map(({ label, deviceId }) => new Option(label || "Microphone", deviceId));
  $("device").replaceChildren(new Option("Default", ""), ...options);
  if (options.some(({ value }) => value === chosen)) $("device").value = chosen;
}

function changeDevice() {
  localStorage.setItem("device", $("device").value);
  if (!listening || reading) return; // a change before the last words have come does not end a restart
  again = true;
  stop();
}

// Sets the variables of style.css from the query.
function styleOverlay() {
  for (const [name, [form, range]] of Object.entries(STYLES)) {
    const given = QUERY.get(name), value = given !== null && form(given);
    if (value) document.documentElement.style.setProperty(`--overlay-${name}`, value);
    else if (given !== null) throw new Error(`${name} in the address is ${given}: it must be ${range}.`);
  }
}

// A window that stays above all others and has only the captions (Document Picture-in-Picture, in Chromium).
async function float() {
  const view = await documentPictureInPicture.requestWindow({ width: 720, height: 150 });
  const box = $("captions"), place = box.parentElement;
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = document.querySelector('link[rel="stylesheet"]').href;
  style.onload = () => (box.scrollTop = box.scrollHeight);
  view.document.title = document.title;
  view.document.documentElement.className = "overlay floating";
  view.document.head.append(style);
  view.document.body.append(box);
  place.classList.add("away");
  view.addEventListener("pagehide", () => {
    place.prepend(box);
    place.classList.remove("away");
    box.scrollTop = box.scrollHeight;
  });
}

function blankAfterSilence() {
  clearTimeout(blank);
  document.body.classList.remove("blank");
  blank = setTimeout(() => document.body.classList.add("blank"), SILENCE_MS);
}

// Without a wake lock, a phone turns off its screen and the microphone.
async function keepAwake() {
  const lock = (await navigator.wakeLock?.request("screen").catch(() => null)) ?? null;
  if (listening) wakeLock = lock;
  else lock?.release();
}

// --- controls ---

// A disabled button would lose the keyboard focus.
function setBusy(value) {
  busy = value;
  $("listen").ariaDisabled = value;
}

function setListening(value) {
  listening = value;
  document.body.classList.toggle("listening", value);
}

function showTools() {
  for (const id of ["copy", "save-text", "save-srt"]) $(id).disabled = captions.empty;
  $("clear").disabled = captions.empty && !captions.cleared;
  $("clear").textContent = captions.cleared ? "Undo" : "Clear";
}

function save(text, suffix) {
  const now = new Date(Date.now() - 60_000 * new Date().getTimezoneOffset()).toISOString();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  link.download = `captions ${now.slice(0, 10)} ${now.slice(11, 16).replace(":", ".")}.${suffix}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  captions.saved();
}

const actions = {
  listen() {
    if ($("listen").ariaDisabled === "true") return;
    if (busy) {
      complete = false;
      engine.abandon();
    } else if (listening) stop();
    else start();
  },
  async copy() {
    try {
      await navigator.clipboard.writeText(captions.text);
      captions.saved();
      $("copy").textContent = "Copied";
      setTimeout(() => ($("copy").textContent = "Copy"), 1500);
    } catch {
      page.showError("The text cannot be copied here: select it and copy it by hand.");
    }
  },
  "save-text": () => save(`${captions.text}\n`, "txt"),
  "save-srt": () => save(captions.srt, "srt"),
  clear() {
    if (captions.cleared) captions.restore();
    else captions.clear();
    showTools();
  },
  open: () => $("file").click(),
  float: () => (window.documentPictureInPicture.window ? documentPictureInPicture.window.close() : float()),
  dismiss: () => page.showError(""),
};
for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);
$("device").addEventListener("change", changeDevice);
$("file").addEventListener("change", () => {
  if ($("file").files.length) captionFile($("file").files[0]);
  $("file").value = ""; // so that the same file can be chosen again
});

// By default, the browser would open a dropped file in place of the page.
for (const type of ["dragover", "drop", "dragleave"]) {
  document.addEventListener(type, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", type === "dragover" && !OVERLAY);
    const [file] = type === "drop" && !OVERLAY ? event.dataTransfer.files : [];
    if (file) captionFile(file);
  });
}

const SHORTCUTS = {
  KeyL: "listen", KeyO: "open", KeyC: "copy", KeyT: "save-text", KeyS: "save-srt", KeyX: "clear", KeyW: "float",
};
document.addEventListener("keydown", (event) => {
  const id = SHORTCUTS[event.code];
  if (OVERLAY || !id || !event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.repeat) return;
  event.preventDefault();
  if (!$("token-dialog").open) $(id).click();
});
navigator.mediaDevices?.addEventListener?.("devicechange", listDevices);
document.addEventListener("visibilitychange", () => {
  if (listening && !document.hidden) keepAwake(); // the browser released it while the page was hidden
});
window.addEventListener("beforeunload", (event) => {
  if (captions.unsaved && !OVERLAY) event.preventDefault(); // the browser asks whether to leave
});

for (const [id, title] of FIGURES) {
  const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = title;
  dd.id = id;
  dd.textContent = "–";
  box.append(dt, dd);
  $("figures").append(box);
}
document.documentElement.classList.toggle("overlay", OVERLAY);
$("float").hidden = !window.documentPictureInPicture;
listDevices();
try {
  if (OVERLAY) styleOverlay();
  await engine.load();
  $("listen").disabled = false;
  page.status("Ready.");
  if (OVERLAY) {
    start();
    setInterval(() => asksAgain && !busy && start(), RETRY_MS); // nobody can click in a video
  }
} catch (error) {
  page.status("");
  page.showError(error.message);
}
