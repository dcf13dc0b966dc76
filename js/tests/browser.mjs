// Drives the page in headless Chromium and prints the visible state as JSON:
//
//     node browser.mjs captions PAGE SPEECH.wav SECONDS FOLDER   with SPEECH.wav as the microphone; its audio in FOLDER
//     node browser.mjs errors PAGE
//     node browser.mjs screenshot PAGE SPEECH.wav PICTURE.png
//
import { readFile, writeFile } from "node:fs/promises";

import { alert, open, photograph, ready, serve, speaking, text } from "./browsers.mjs";

// Keeps all audio that is sent to the recognizer, so that another recognizer can process it too.
function keepSamples() {
  const post = Worker.prototype.postMessage;
  window.kept = { sampleRate: 0, samples: [] };
  Worker.prototype.postMessage = function (message, transfer) {
    if (message.type === "open") window.kept.sampleRate = message.sampleRate;
    if (message.type === "audio") window.kept.samples.push(...message.samples);
    return post.call(this, message, transfer);
  };
}

// Keeps the constraints that the page requests for the microphone.
function keepConstraints() {
  const open = MediaDevices.prototype.getUserMedia;
  MediaDevices.prototype.getUserMedia = function (constraints) {
    window.constraints = constraints.audio;
    return open.call(this, constraints);
  };
}

// Keeps what the bar shows: [status, share]. The share is null while the bar moves without one.
function keepBar() {
  window.bar = [];
  document.addEventListener("DOMContentLoaded", () => {
    const bar = document.getElementById("progress");
    new MutationObserver(() => {
      const share = bar.hidden ? "hidden" : bar.hasAttribute("value") ? bar.value : null;
      window.bar.push([document.getElementById("status").textContent, share]);
    }).observe(bar, { attributes: true });
  });
}

function refuseSampleRate() {
  const Original = AudioContext;
  window.AudioContext = class extends Original {
    constructor(options) {
      if (options?.sampleRate) throw new DOMException("not this rate", "NotSupportedError");
      super();
    }
  };
}

async function listen(page, seconds, soundFile) {
  await page.locator("#listen").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => Number(document.getElementById("level").ariaValueNow) > 3);
  await page.waitForFunction((count) => window.kept.samples.length >= count * window.kept.sampleRate, seconds);
  await page.keyboard.press("Space"); // the button still has the focus
  await page.waitForFunction(() => document.getElementById("status").textContent === "Stopped.");
  const kept = await page.evaluate(() => window.kept);
  await writeFile(soundFile, Float32Array.from(kept.samples));
  const figures = {};
  for (const id of ["rtf", "latency", "memory", "loading"]) figures[id] = await text(page, id);
  return {
    finals: await page.locator("#finals span").allTextContents(),
    partial: await text(page, "partial"),
    error: await text(page, "error"),
    sampleRate: kept.sampleRate,
    constraints: await page.evaluate(() => window.constraints),
    ...figures,
  };
}

async function captions(files, wav, seconds, folder) {
  const { browser, context } = await open(speaking(`${wav}%noloop`));
  try {
    const server = await serve(files);
    const requests = [], complaints = [];
    const page = await context.newPage();
    context.on("request", (request) => requests.push(request.url()));
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    await context.addInitScript(keepSamples);
    await context.addInitScript(keepConstraints);
    await page.addInitScript(keepBar);
    await page.goto(server.url);
    await ready(page);
    const bar = await page.evaluate(() => window.bar);
    const online = await listen(page, Number(seconds), `${folder}/online.f32`);
    await page.waitForFunction(() => document.getElementById("offline").textContent === "works");

    server.stop();
    await context.addInitScript(refuseSampleRate); // the recognizer then has to resample
    await page.reload();
    await ready(page);
    const offline = await listen(page, Number(seconds), `${folder}/offline.f32`);
    const foreign = requests.filter((url) => !url.startsWith(server.url) && !url.startsWith("data:"));
    return { online, offline, foreign, complaints, bar };
  } finally {
    await browser.close();
  }
}

// The message of the page for each type of failure.
async function errors(files) {
  const server = await serve(files);
  const { browser, context } = await open(["--disable-audio-input"]); // independent of the devices of this machine
  const said = {};
  const failing = async (name, prepare) => {
    const page = await context.newPage();
    await prepare(page);
    await page.goto(server.url);
    said[name] = await alert(page);
    await page.close();
  };
  try {
    await failing("no WebAssembly", (page) => page.addInitScript(() => delete globalThis.WebAssembly));
    await failing("no model", (page) => page.route("**/model.onnx", (route) => route.fulfill({ status: 404 })));
    const model = await readFile(`${files}/model.onnx`);
    await failing("truncated model", (page) =>
      page.route("**/model.onnx", (route) => route.fulfill({ body: model.subarray(0, model.length / 2) })));
    await failing("truncated language model", (page) =>
      page.route("**/language.lm", (route) => route.fulfill({ body: Buffer.from("ASRNGRAM") })));

    const page = await context.newPage();
    await page.goto(server.url);
    await ready(page);
    await page.click("#listen");
    said["no microphone"] = await alert(page);
    await page.evaluate(() => {
      const denied = new DOMException("Permission denied", "NotAllowedError");
      navigator.mediaDevices.getUserMedia = () => Promise.reject(denied);
    });
    await page.click("#listen");
    await page.waitForFunction((before) => ![before, ""].includes(document.getElementById("error").textContent),
      said["no microphone"]);
    said["permission refused"] = await alert(page);
    await page.evaluate(() => {
      const silence = new AudioContext().createMediaStreamDestination().stream;
      navigator.mediaDevices.getUserMedia = async () => silence;
    });
    await page.click("#listen");
    await page.waitForFunction(() => document.getElementById("status").textContent === "Listening.");
    await page.evaluate(async () => {
      const [track] = (await navigator.mediaDevices.getUserMedia()).getAudioTracks();
      track.dispatchEvent(new Event("ended"));
    });
    said["disconnected"] = await alert(page);
    await page.waitForFunction(() => document.getElementById("listen").ariaDisabled === "false"); // can start again
    return said;
  } finally {
    await browser.close();
    server.stop();
  }
}

async function screenshot(files, wav, picture) {
  const server = await serve(files);
  await photograph(server.url, wav, picture).finally(server.stop);
}

const [scenario, ...rest] = process.argv.slice(2);
console.log(JSON.stringify((await { captions, errors, screenshot }[scenario](...rest)) ?? null));
