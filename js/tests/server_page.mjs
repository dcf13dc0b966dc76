// Drives the page of `asr-stream serve` in headless Chromium and prints the visible state as JSON:
//
//     node server_page.mjs live PYTHON SPEECH.wav FINALS.json FOLDER
//         SPEECH.wav (16 kHz, mono) is the microphone's audio; sent audio, saved files, and FINALS as SRT are in FOLDER
//     node server_page.mjs pages PYTHON SPEECH.wav TALK FOLDER
//         overlay: /?overlay with SPEECH.wav as the microphone, without any key or click; overlay.png is
//         in FOLDER. float: the captions in their own window, floating.png.
//         file: TALK is dropped on the page, and then chosen; sent audio and saved files are in FOLDER.
//         silence.wav of FOLDER is stopped before its end, and then captioned
//     node server_page.mjs screenshot PYTHON SPEECH.wav PICTURE.png [WIDTH HEIGHT light|dark]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { alert, open, photograph, ready, speakExactly, speaking, text } from "./browsers.mjs";

const TOKEN = "a secret/of ours (=ü)";

async function serve(python, { port = 0, token = "", options = [] } = {}) {
  const command = ["-m", "asr.streaming.terminal.cli", "serve", "--port", port, "--threads", "1", ...options];
  const server = spawn(python, command, {
    stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ASR_STREAM_TOKEN: token },
  });
  for await (const line of createInterface(server.stderr)) {
    const listening = /Listening on (http:\/\/\S+:(\d+))/.exec(line);
    if (listening) return { url: listening[1], port: listening[2], stop: () => stop(server) };
  }
  throw new Error("the server does not start");
}

async function stop(server) {
  if (server.exitCode !== null || server.signalCode) return;
  server.kill();
  await once(server, "exit");
}

const QUICK = ["--search", "greedy", "--no-second-pass"];

// Keeps the audio sent to the server on each connection, so that another recognizer can process it too.
function keepSamples() {
  const send = WebSocket.prototype.send;
  window.kept = new Map();
  WebSocket.prototype.send = function (data) {
    if (!window.kept.has(this)) window.kept.set(this, []);
    if (typeof data !== "string") window.kept.get(this).push(...data);
    return send.call(this, data);
  };
}

// Audio waits in the utterance after the first final until window.resumed is set.
function waitInSecondUtterance() {
  window.inSecondUtterance = () =>
    document.querySelector("#finals li") && document.getElementById("partial").textContent;
  window.waits = () => inSecondUtterance() && !window.resumed;
}

// Keeps each version of the partial: [stable words, whole text].
function keepPartials() {
  window.partials = [];
  new MutationObserver(() => {
    const partial = document.getElementById("partial");
    const stable = partial?.querySelector("span")?.textContent ?? "";
    if (partial?.textContent) window.partials.push([stable, partial.textContent]);
  }).observe(document, { subtree: true, childList: true });
}

// Keeps the elements that moved by themselves. New lines of the captions move the elements after them.
function watchLayout() {
  window.moved = [];
  new PerformanceObserver((list) => {
    const sources = list.getEntries().flatMap((entry) => entry.sources.map(({ node }) => node));
    const moved = sources.map((node) => (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node));
    const elsewhere = moved.filter((node) => node && !node.closest("#captions"));
    window.moved.push(...elsewhere.map((node) => node.id || node.tagName));
  }).observe({ type: "layout-shift", buffered: true });
}

async function giveToken(page, token) {
  await page.fill("#token", token);
  await page.keyboard.press("Enter");
}

async function live(python, wav, finalsFile, folder) {
  let server = await serve(python, { token: TOKEN, options: QUICK });
  const { browser, context } = await open(speaking(wav));
  try {
    const page = await context.newPage();
    await speakExactly(page, Array(3).fill(wav));
    await page.addInitScript(waitInSecondUtterance);
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      if (!/WebSocket|Failed to load resource/.test(message.text())) complaints.push(message.text());
    });
    await page.addInitScript(keepSamples);
    await page.addInitScript(watchLayout);
    await page.addInitScript(keepPartials);
    await page.goto(server.url);
    await giveToken(page, "not this one");
    await page.waitForFunction(() => document.getElementById("token-hint").textContent.includes("does not accept"));
    await giveToken(page, TOKEN);
    await ready(page);

    // The server stops in the second utterance, with a final of the audio so far, and is started again.
    await page.keyboard.press("Alt+KeyL");
    await page.waitForFunction(() => inSecondUtterance());
    const latency = await text(page, "latency");
    await server.stop();
    const gone = await alert(page);
    const during = [await page.locator("#finals span").allTextContents(), await text(page, "partial")];
    await page.evaluate(() => (window.resumed = true));
    server = await serve(python, { token: TOKEN, port: server.port, options: [...QUICK, "--max-sessions", "1"] });
    await page.waitForFunction(() => document.querySelectorAll("#finals li").length > 1);
    const over = await text(page, "error");

    const other = await context.newPage();
    await other.goto(server.url);
    const full = await alert(other);
    await other.close();

    await page.keyboard.press("Alt+KeyL");
    await page.waitForFunction(() => document.getElementById("status").textContent === "Stopped.");
    // The samples are sent as text, because Playwright is slow with long lists.
    const connections = await page.evaluate(() => [...window.kept.values()].map((samples) => samples.join(" ")));
    for (const [i, samples] of connections.entries()) {
      await writeFile(`${folder}/${i}.s16`, Int16Array.from(samples.split(" ")));
    }
    const saved = {};
    for (const [key, id] of [["KeyT", "text"], ["KeyS", "srt"]]) {
      const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press(`Alt+${key}`)]);
      await download.saveAs(`${folder}/saved.${id}`);
      saved[id] = download.suggestedFilename();
    }
    await page.keyboard.press("Alt+KeyX");
    const cleared = await page.locator("#finals span").count();
    await page.keyboard.press("Alt+KeyX");
    const finals = await page.locator("#finals span").allTextContents();
    const srt = await page.evaluate(async (given) => (await import("/subtitles.js")).srt(given),
      JSON.parse(await readFile(finalsFile, "utf8")));
    await writeFile(`${folder}/finals.srt`, srt);

    // Others are chosen while one is open, as the arrow keys do; the page remembers the last.
    await page.keyboard.press("Alt+KeyL");
    const connected = (count) => page.waitForFunction((count) => window.kept.size === count, count);
    await connected(3);
    await page.evaluate(() => {
      const list = document.getElementById("device");
      for (const { value } of [...list.options].slice(-2)) {
        list.value = value;
        list.dispatchEvent(new Event("change"));
      }
    });
    await connected(4);
    await page.waitForFunction(() => document.getElementById("listen").textContent === "Stop listening");
    const remembered = await page.evaluate(
      () => localStorage.getItem("device") === document.getElementById("device").value,
    );

    // The server stops again and is not restarted; the user can choose not to wait for it.
    await server.stop();
    await page.keyboard.press("Alt+KeyL");
    await page.waitForFunction(() => document.getElementById("listen").textContent === "Do not wait");
    await page.keyboard.press("Alt+KeyL");
    const givenUp = [await text(page, "status"), await alert(page)];
    const [moved, partials] = await page.evaluate(() => [window.moved, window.partials]);
    return {
      partials, gone, during, over, full, latency, saved, cleared, finals, givenUp, remembered, moved, complaints,
    };
  } finally {
    await browser.close();
    await server.stop();
  }
}

async function pages(python, wav, talk, folder) {
  const server = await serve(python, { options: QUICK });
  const viewport = { width: 1280, height: 720 };
  const { browser, context } = await open(speaking(wav), { viewport, colorScheme: "dark" });
  try {
    return {
      overlay: await overlay(await context.newPage(), server.url, folder),
      float: await float(await context.newPage(), server.url, folder),
      file: await file(await context.newPage(), server.url, talk, folder),
    };
  } finally {
    await browser.close();
    await server.stop();
  }
}

async function overlay(page, url, folder) {
  await page.addInitScript(() => {
    const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (wanted) => (window.microphone = await open(wanted));
  });
  await page.goto(`${url}/?overlay`);
  await page.waitForFunction(() => document.querySelectorAll("#finals li").length >= 3);
  const seen = await page.evaluate(() => {
    const box = document.getElementById("captions"), style = getComputedStyle(box);
    const lines = box.clientHeight / parseFloat(style.lineHeight);
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 2;
    const shown = [...document.querySelectorAll("button, select, header, footer, time, #status")];
    const controls = shown.filter((node) => node.checkVisibility()).length;
    return { lines, atEnd, size: parseFloat(style.fontSize), controls };
  });
  await page.keyboard.press("Alt+KeyL");
  const listening = await page.locator("body.listening").count();
  await page.screenshot({ path: `${folder}/overlay.png`, omitBackground: true });
  const error = await text(page, "error");
  await page.evaluate(() => window.microphone.getTracks()[0].dispatchEvent(new Event("ended")));
  const unplugged = await alert(page);
  await page.waitForFunction(() => {
    return document.body.classList.contains("listening") && !document.getElementById("error").textContent;
  });
  await page.goto(`${url}/?overlay&lines=3&size=40&color=ffcc00&background=000000a0`);
  await page.waitForFunction(() => document.querySelectorAll("#finals li").length >= 1);
  const styled = await page.evaluate(() => {
    const { height, fontSize, color, backgroundColor } = getComputedStyle(document.getElementById("captions"));
    return [height, fontSize, color, backgroundColor];
  });
  await page.goto(`${url}/?overlay&lines=many`);
  const refused = await alert(page);
  await page.close();
  return { ...seen, listening, error, unplugged, styled, refused };
}

async function float(page, url, folder) {
  await page.goto(url);
  await ready(page);
  const opened = page.context().waitForEvent("page");
  await page.click("#float");
  const view = await opened;
  await page.click("#listen");
  await view.waitForFunction(() => document.querySelectorAll("#finals li").length >= 2);
  const seen = { finals: await view.locator("#finals span").allTextContents() };
  await view.setViewportSize({ width: 720, height: 150 });
  await view.screenshot({ path: `${folder}/floating.png` });
  seen.size = await view.evaluate(() => parseFloat(getComputedStyle(document.getElementById("captions")).fontSize));
  seen.shown = await view.locator("button, select, time").filter({ visible: true }).count();
  await page.click("#float");
  await page.locator("#captions").waitFor();
  seen.after = (await page.locator("#finals span").allTextContents()).slice(0, seen.finals.length);
  await page.close();
  return seen;
}

async function drop(page, name, bytes) {
  const data = await page.evaluateHandle(([name, base64]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))], name));
    return transfer;
  }, [name, bytes.toString("base64")]);
  for (const type of ["dragover", "drop"]) await page.dispatchEvent("#finals", type, { dataTransfer: data });
}

async function file(page, url, talk, folder) {
  await page.addInitScript(keepSamples);
  await page.goto(url);
  await ready(page);
  await drop(page, "notes.txt", Buffer.from("no sound"));
  const refused = await alert(page);
  const captioned = async (count) => {
    await page.waitForFunction((count) => window.kept.size === count &&
      document.getElementById("status").textContent === "Done.", count);
    return page.locator("#finals span").allTextContents();
  };
  await drop(page, "talk.wav", await readFile(talk));
  const dropped = await captioned(1);
  const error = await text(page, "error");
  await page.setInputFiles("#file", talk);
  const chosen = await captioned(2);
  const [samples] = await page.evaluate(() => [...window.kept.values()].map((samples) => samples.join(" ")));
  await writeFile(`${folder}/sent.s16`, Int16Array.from(samples.split(" ")));
  const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Alt+KeyS")]);
  await download.saveAs(`${folder}/saved.srt`);
  // The first file is stopped at once: a moment later, all of it may be captioned.
  await page.evaluate(() => {
    const button = document.getElementById("listen");
    new MutationObserver((_, observer) => {
      if (button.textContent !== "Stop") return;
      observer.disconnect();
      button.click();
    }).observe(button, { childList: true });
  });
  const statuses = [];
  for (const before of ["Done.", "Stopped."]) {
    await drop(page, "silence.wav", await readFile(`${folder}/silence.wav`));
    await page.waitForFunction((before) => document.getElementById("status").textContent !== before &&
      document.getElementById("listen").textContent === "Start listening" &&
      document.getElementById("listen").ariaDisabled === "false", before);
    statuses.push(await text(page, "status"));
  }
  return { refused, dropped, error, chosen, statuses, listen: await text(page, "listen") };
}

async function screenshot(python, wav, picture, width = 900, height = 720, colorScheme = "light") {
  const server = await serve(python);
  const viewport = { width: Number(width), height: Number(height) };
  await photograph(server.url, wav, picture, { viewport, colorScheme }).finally(server.stop);
}

const [scenario, ...rest] = process.argv.slice(2);
console.log(JSON.stringify((await { live, pages, screenshot }[scenario](...rest)) ?? null));
