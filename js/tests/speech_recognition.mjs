// Drives pages that use SpeechRecognition in a headless browser, and prints their events and their text as JSON:
//
//     node speech_recognition.mjs FOLDER demos     in Firefox
//     node speech_recognition.mjs FOLDER order     in Chromium
//
// FOLDER has the page (js/page), files of demos/, and recordings: color.wav, other.wav, talk.wav, radio.wav. The audio
// of each stream is written there: dictation.0.f32, ... Firefox records the monitor of a sink of $PULSE_SERVER.
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";

import { open, openFirefox, serve, speakExactly, speaking } from "./browsers.mjs";

const [folder, scenario] = process.argv.slice(2);

async function opened(context, url, recordings = []) {
  const page = await context.newPage();
  if (recordings.length) await speakExactly(page, recordings.map((name) => `${folder}/${name}`));
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(url);
  await page.evaluate(() => window.loaded);
  return { page, complaints };
}

const count = (type) => (page, number) => page.waitForFunction(
  ([type, number]) => window.events.filter(([each]) => each === type).length >= number, [type, number]);
const ends = count("end"), starts = count("audiostart");

async function told(demo, { page, complaints }) {
  const { streams, ...seen } = await page.evaluate(() => {
    const { events, streams, numWorkers } = window;
    const lines = Array.from(document.querySelectorAll("p, span, li"), (element) => element.textContent);
    return { events, streams, numWorkers, lines, color: document.body.style.backgroundColor };
  });
  for (const [i, { samples }] of streams.entries()) {
    await writeFile(`${folder}/${demo}.${i}.f32`, Float32Array.from(samples));
  }
  await page.close();
  return { ...seen, complaints, sampleRates: streams.map(({ sampleRate }) => sampleRate) };
}

async function demos(context, url) {
  const found = {};
  const colors = await opened(context, `${url}colors.html?silent`, ["color.wav", "other.wav"]);
  for (const number of [1, 2]) {
    await colors.page.click("body");
    await ends(colors.page, number);
    if (number === 1) colors.first = await colors.page.textContent("#output");
  }
  found.colors = { ...await told("colors", colors), first: colors.first };

  const dictation = await opened(context, `${url}dictation.html`);
  await dictation.page.addScriptTag({ type: "module", url: "record.js" });
  await dictation.page.getByText("Ready.").waitFor();
  for (const number of [1, 2]) { // the second session is stopped after the first sentence
    await dictation.page.click("#button");
    await starts(dictation.page, number);
    spawn("paplay", ["-d", "speaker", `${folder}/talk.wav`], { stdio: "ignore" });
    await dictation.page.waitForFunction((wanted) => {
      const finals = window.events.at(-1)[3]?.filter(([, isFinal]) => isFinal);
      return finals?.length >= wanted; // on a busy machine, two may arrive at once
    }, 3 - number);
    await dictation.page.click("#button");
    await ends(dictation.page, number);
  }
  found.dictation = await told("dictation", dictation);

  const commands = await opened(context, `${url}commands.html?silent`, ["radio.wav", "radio.wav"]);
  await commands.page.click("body");
  await starts(commands.page, 3);
  found.commands = await told("commands", commands);
  return found;
}

// Tests before the models are loaded. Each value is the events of a session, or the name of an error.
async function loading() {
  const found = {};
  const tags = { langs: ["en-US"], processLocally: true };
  found.availability = [await SpeechRecognition.available(tags)];
  found.unnamed = await session();
  found.missing = await thrown(() => SpeechRecognition.load({ ...models, model: "missing.onnx" }));
  found.stillMissing = await session();
  const loaded = SpeechRecognition.load(models);
  found.availability.push(
    await SpeechRecognition.available(tags), await SpeechRecognition.install(tags),
    await SpeechRecognition.available(tags), await SpeechRecognition.available({ langs: ["en", "fr"] }),
    await SpeechRecognition.install({ langs: ["fr"] }));
  await loaded;
  found.again = await Promise.all([
    thrown(() => SpeechRecognition.load({ ...models, lm: null })), thrown(() => SpeechRecognition.load(models)),
  ]);
  found.numWorkers = numWorkers;
  return found;
}

async function silence() {
  const found = {};
  const later = (act) => (recognition, type) => type === "audiostart" && setTimeout(() => act(recognition), 500);
  const { lang, continuous, interimResults, maxAlternatives, grammars, phrases, onresult } = new SpeechRecognition();
  found.defaults = [
    lang, continuous, interimResults, maxAlternatives, grammars.length, phrases.length, onresult,
    "onend" in SpeechRecognition.prototype,
  ];
  found.abort = await session({}, later((recognition) => recognition.abort()));
  found.stop = await session({ lang: "EN-gb", continuous: true }, later((recognition) => {
    recognition.stop();
    recognition.stop();
  }));
  found.noSpeech = await session();
  found.abortAtOnce = await session({}, (recognition, type) => type === null && recognition.abort());
  found.stopAtOnce = await session({}, (recognition, type) => type === null && recognition.stop());
  found.french = await session({ lang: "fr-FR" });
  found.noLanguage = await session({ lang: "no_tag" });
  const withGrammar = (text) => {
    const grammars = new SpeechGrammarList();
    grammars.addFromString(text);
    return session({ grammars });
  };
  found.otherGrammar = await withGrammar("#ABNF 1.0; $color = red;");
  found.nestedGrammar = await withGrammar("#JSGF V1.0; grammar a; public <a> = turn [it] on;");
  found.unspellable = await withGrammar("#JSGF V1.0; grammar a; public <a> = 42 | red;");
  found.unspellablePhrase = await session({ phrases: [new SpeechRecognitionPhrase("42")] },
    (recognition, type) => type === "start" && recognition.stop());

  const restart = (event) => {
    let isFirst = true;
    return (recognition, type) => {
      if (type === null) recognition.addEventListener(event, () => {
        if (isFirst) recognition.start();
        isFirst = false;
      });
      if (type === "audiostart") recognition.abort();
    };
  };
  const both = (event) => new Promise((resolve) => {
    let seen;
    const begun = restart(event);
    session({}, (recognition, type) => {
      if (type === null) recognition.addEventListener("end", () => {
        seen = recognition.seen;
        if (seen.filter(([type]) => type === "end").length === 2) resolve(seen);
      });
      begun(recognition, type);
    });
  });
  found.restartedAtEnd = await both("end");
  found.restartedAtError = await both("error");

  const twice = new SpeechRecognition();
  twice.start();
  found.refusals = [thrown(() => twice.start())];
  twice.abort();
  found.refusals.push(thrown(() => twice.start())); // its end event has not come yet
  const video = document.createElement("canvas").captureStream().getVideoTracks()[0];
  const ended = (await recording(null)).getAudioTracks()[0];
  ended.stop();
  found.refusals = await Promise.all([
    ...found.refusals, ...[video, ended, {}].map((track) => thrown(() => new SpeechRecognition().start(track))),
    thrown(() => (new SpeechRecognition().grammars = [])), thrown(() => (new SpeechRecognition().phrases = ["a"])),
    thrown(() => new SpeechRecognitionPhrase("a", 11)),
  ]);
  const resume = AudioContext.prototype.resume;
  AudioContext.prototype.resume = function () {
    return this.suspend();
  };
  found.noAudio = await session();
  AudioContext.prototype.resume = resume;
  const refuse = (error) => (navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", error)));
  refuse("NotAllowedError");
  found.refused = await session();
  refuse("NotFoundError");
  found.noMicrophone = await session();
  return found;
}

async function sound() {
  const found = {};
  const streams = await Promise.all(["talk.wav", "radio.wav"].map(recording));
  const tracks = streams.map((each) => each.getAudioTracks()[0]);
  [found.track, found.otherTrack] = await Promise.all(streams.map((each, i) =>
    session({}, (recognition, type) => type === "start" && each.play(), tracks[i])));
  found.states = tracks.map(({ readyState }) => readyState);
  const others = await Promise.all(["talk.wav", "radio.wav"].map(recording));
  const [disabled, stopped] = others.map((each) => each.getAudioTracks()[0]);
  found.disabledTrack = await session({}, (recognition, type) => {
    if (type !== "start") return;
    disabled.enabled = false;
    others[0].play();
  }, disabled);
  found.stoppedTrack = await session({ continuous: true }, (recognition, type) => {
    if (type === "start") others[1].play();
    if (type === "soundstart") setTimeout(() => stopped.stop(), 600);
  }, stopped);
  let stream;
  navigator.mediaDevices.getUserMedia = async () => (stream = await microphone("radio.wav"));
  // The page stops before the first words are recognized.
  found.pushToTalk = await session({ continuous: true },
    (recognition, type) => type === "soundstart" && setTimeout(() => recognition.stop(), 600));
  // The speech ends before the worker begins.
  found.busy = await session({}, (recognition, type) => type === null && holdFor(5000));
  found.lost = await session({ continuous: true, interimResults: true }, (recognition, type) =>
    type === "result" && stream.getAudioTracks()[0].dispatchEvent(new Event("ended")));
  found.abortInSpeech = await session({ interimResults: true },
    (recognition, type) => type === "result" && recognition.abort());
  found.phrase = await session({ phrases: [new SpeechRecognitionPhrase("turnov", 10)], maxAlternatives: 3 });
  return { ...found, lastNumWorkers: numWorkers };
}

async function order(context, url) {
  const { page } = await opened(context, `${url}blank.html?later&silent`);
  const found = {};
  for (const part of [loading, silence, sound]) Object.assign(found, await page.evaluate(part));
  return found;
}

const { browser, context } = await (scenario === "demos"
  ? openFirefox() : open(["--autoplay-policy=no-user-gesture-required", ...speaking(`${folder}/talk.wav%noloop`)]));
const server = await serve(folder);
try {
  console.log(JSON.stringify(await { demos, order }[scenario](context, server.url)));
} finally {
  await browser.close();
  server.stop();
}
