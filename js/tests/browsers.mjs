// Shared code of the page tests: headless browsers, Debian's or those in $CHROMIUM and $FIREFOX.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { chromium, firefox } from "playwright-core";

const TIMEOUT = 240_000; // ms

export async function open(flags, options = {}) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", timeout: TIMEOUT,
    args: ["--no-sandbox", "--disable-dev-shm-usage", ...flags], // tests may run as root, and in a container
  });
  const context = await browser.newContext({ viewport: { width: 900, height: 720 }, ...options });
  context.setDefaultTimeout(TIMEOUT);
  context.on("dialog", (dialog) => dialog.accept()); // confirms leaving with unsaved text
  return { browser, context };
}

// Audio needs the sound server in $PULSE_SERVER.
export async function openFirefox() {
  const browser = await firefox.launch({
    channel: "moz-firefox", executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr", timeout: TIMEOUT,
    firefoxUserPrefs: { // audio without a click, the microphone without a prompt
      "media.autoplay.default": 0, "media.navigator.permission.disabled": true,
    },
  });
  const context = await browser.newContext();
  context.setDefaultTimeout(TIMEOUT);
  return { browser, context };
}

// The file server of docs/guides/web.md.
export async function serve(folder) {
  const server = spawn("python3", ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = await once(createInterface(server.stdout), "line");
  return { url: `http://localhost:${/port (\d+)/.exec(line)[1]}/`, stop: () => server.kill() };
}

// Chromium's flags for the file `wav` as the microphone.
export const speaking = (wav) => [
  "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", `--use-file-for-fake-audio-capture=${wav}`,
];

// The n-th time that the page opens the microphone, it gets exactly the n-th WAV file (16 kHz, mono), and then silence.
// Audio pauses while window.waits(), if it exists, is true. The microphones of browsers lose audio on a busy machine.
export async function speakExactly(page, wavs) {
  const files = await Promise.all(wavs.map((wav) => readFile(wav, "base64")));
  await page.addInitScript((files) => {
    window.AudioWorkletNode = class extends GainNode {
      port = {};
      constructor(context) {
        super(context);
        const bytes = Uint8Array.from(atob(files.shift() ?? ""), (char) => char.charCodeAt(0));
        const speech = Float32Array.from(new Int16Array(bytes.buffer, bytes.length && 44), (sample) => sample / 32768);
        let position = 0;
        const timer = setInterval(() => {
          if (this.port.onmessage === null) clearInterval(timer); // closed
          if (!this.port.onmessage || window.waits?.()) return;
          const samples = new Float32Array(256);
          samples.set(speech.subarray(position, position + 256));
          position += 256;
          this.port.onmessage({ data: { samples, peak: Math.max(...samples.map(Math.abs)) } });
        }, 16);
      }
    };
  }, files);
}

// A folder with speech.wav: `wav` (16 kHz, mono) and 1.5 s of silence, which ends an utterance.
async function speechWithPause(wav) {
  const folder = await mkdtemp(join(tmpdir(), "asr-stream-"));
  const withPause = Buffer.concat([await readFile(wav), Buffer.alloc(48000)]);
  withPause.writeUInt32LE(withPause.length - 8, 4);
  withPause.writeUInt32LE(withPause.length - 44, 40);
  await writeFile(`${folder}/speech.wav`, withPause);
  return folder;
}

export const text = (page, id) => page.locator(`#${id}`).textContent();

// Waits until listening can start; throws the error if the page shows one.
export async function ready(page) {
  await page.waitForFunction(
    () => !document.getElementById("listen").disabled || document.getElementById("error").textContent,
  );
  if (await page.locator("#listen").isDisabled()) throw new Error(`the page says: ${await text(page, "error")}`);
}

// Takes a picture of the page when it shows finals and a partial; `wav` is played repeatedly.
export async function photograph(url, wav, picture, options) {
  const folder = await speechWithPause(wav);
  const { browser, context } = await open(speaking(`${folder}/speech.wav`), options);
  try {
    const page = await context.newPage();
    await page.goto(url);
    await ready(page);
    await page.click("#listen");
    await page.waitForFunction(() => document.querySelectorAll("#finals li").length >= 2 &&
      document.getElementById("partial").textContent.length > 20);
    await page.mouse.move(0, 0);
    await page.screenshot({ path: picture });
  } finally {
    await rm(folder, { recursive: true });
    await browser.close();
  }
}

// Waits for an error message of the page and returns it.
export async function alert(page) {
  return (await page.waitForFunction(() => document.getElementById("error").textContent)).jsonValue();
}
