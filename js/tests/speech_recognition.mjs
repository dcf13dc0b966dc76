// Drives pages that use SpeechRecognition in a headless browser, and tells, as JSON, what they were told and showed:
//
//     node speech_recognition.mjs chromium|firefox FOLDER demos|order
//
// FOLDER: the page (js/page), the files of demos/, and recordings: color.wav, other.wav, talk.wav, off.wav.
// What the recognizer heard is written there: color.f32, ...
import { writeFile } from "node:fs/promises";

import { open, openFirefox, serve } from "./browsers.mjs";

const [name, folder, scenario] = process.argv.slice(2);

// Opens demo, does what a person would do with it, and waits until `done` (in the page) holds.
async function demo(context, url, file, recordings, done, clicks = "body", query = "") {
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(`${url}${file}.html?microphone=${recordings}.wav${query}`);
  await page.evaluate(() => window.loaded);
  await page.click(clicks);
  await page.waitForFunction(done);
  return { page, complaints };
}

async function told({ page, complaints }, recording) {
  const { samples, ...seen } = await page.evaluate(() => {
    const { events, samples, sampleRate, numWorkers } = window;
    const lines = Array.from(document.querySelectorAll("p, span, li"), (element) => element.textContent);
    return { events, samples, sampleRate, numWorkers, lines, color: document.body.style.backgroundColor };
  });
  await writeFile(`${folder}/${recording}.f32`, Float32Array.from(samples));
  await page.close();
  return { ...seen, complaints };
}

async function demos(context, url) {
  const found = {};
  const ended = () => window.events.some(([type]) => type === "end");
  for (const recording of ["color", "other"]) {
    const page = await demo(context, url, "colors", recording, ended, "body", "&grammar");
    found[recording] = await told(page, recording);
  }
  const dictation = await demo(context, url, "dictation", "talk", () =>
    window.events.filter(([type, , , results]) => type === "result" && results.at(-1)[1]).length === 2, "#start");
  await dictation.page.click("#start");
  await dictation.page.waitForFunction(ended);
  found.talk = await told(dictation, "talk");
  const again = () => document.querySelectorAll("li").length === 3;
  found.commands = await told(await demo(context, url, "commands", "off", again), "commands");
  return found;
}

// What happens in a page of silence; each answer is the events of a session, or the names of errors.
async function order(context, url) {
  const page = await context.newPage();
  await page.goto(`${url}blank.html`);
  await page.evaluate(() => window.loaded);
  const silent = await page.evaluate(async () => {
    const found = {};
    const later = (act) => ({
      begun: (recognition, type) => type === "audiostart" && setTimeout(() => act(recognition), 500),
    });
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
    found.abortAtOnce = await session({}, { begun: (recognition, type) => type === null && recognition.abort() });
    found.stopAtOnce = await session({}, { begun: (recognition, type) => type === null && recognition.stop() });
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
    found.unspellablePhrase = await session({ phrases: [new SpeechRecognitionPhrase("42")] });
    let again;
    found.twice = [];
    found.restarted = await session({}, {
      begun(recognition, type) {
        if (type === "start" && !again) {
          found.twice.push(thrown(() => recognition.start()));
          again = new Promise((resolve) => recognition.addEventListener("end", () => {
            if (recognition.seen.filter(([each]) => each === "end").length > 1) return;
            recognition.start(); // in the listener
            resolve();
          }));
        }
        if (type === "audiostart") recognition.abort();
      },
    });
    const video = document.createElement("canvas").captureStream().getVideoTracks()[0];
    const ended = (await recording(null)).getAudioTracks()[0];
    ended.stop();
    found.twice = await Promise.all([
      ...found.twice, ...[video, ended, {}].map((track) => thrown(() => new SpeechRecognition().start(track))),
      thrown(() => (new SpeechRecognition().grammars = [])), thrown(() => new SpeechRecognitionPhrase("a", 11)),
      thrown(() => SpeechRecognition.load({ ...models, lm: null })), thrown(() => SpeechRecognition.load(models)),
    ]);
    const refuse = (error) => (navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", error)));
    refuse("NotAllowedError");
    found.refused = await session();
    refuse("NotFoundError");
    found.noMicrophone = await session();
    return found;
  });
  const spoken = await page.evaluate(async () => {
    const found = {};
    const track = (await recording("talk.wav")).getAudioTracks()[0];
    const other = (await recording("off.wav")).getAudioTracks()[0];
    [found.track, found.otherTrack] = await Promise.all([session({}, { track }), session({}, { track: other })]);
    found.states = [track.readyState, other.readyState];
    let stream;
    navigator.mediaDevices.getUserMedia = async () => (stream = await recording("talk.wav"));
    // Let go before the first words are recognized.
    found.pushToTalk = await session({ continuous: true }, {
      begun: (recognition, type) => type === "soundstart" && setTimeout(() => recognition.stop(), 300),
    });
    found.lost = await session({ continuous: true, interimResults: true }, {
      begun: (recognition, type) => type === "result" && stream.getAudioTracks()[0].dispatchEvent(new Event("ended")),
    });
    found.abortInSpeech = await session({ interimResults: true }, {
      begun: (recognition, type) => type === "result" && recognition.abort(),
    });
    found.numWorkers = numWorkers;
    return found;
  });
  await page.goto(`${url}blank.html?later`);
  const network = await page.evaluate(async () => {
    const found = { unnamed: await session() };
    found.missing = await thrown(() => SpeechRecognition.load({ ...models, model: "missing.onnx" }));
    found.stillMissing = await session();
    await SpeechRecognition.load(models);
    found.found = await session({}, { begun: (recognition, type) => type === "start" && recognition.stop() });
    return found;
  });
  return { ...silent, ...spoken, ...network };
}

const { browser, context } = await (name === "firefox"
  ? openFirefox() : open(["--autoplay-policy=no-user-gesture-required"]));
const server = await serve(folder);
try {
  console.log(JSON.stringify(await { demos, order }[scenario](context, server.url)));
} finally {
  await browser.close();
  server.stop();
}
