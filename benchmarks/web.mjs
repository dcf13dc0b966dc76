// The Node side of web.py: node web.mjs MODEL.onnx LM.lm PUNCTUATION.onnx NEURAL_LM.onnx FILE.wav...
import { readFile } from "node:fs/promises";

import { Recognizer } from "../js/src/index.js";
import { readWav } from "../js/src/wav.js";

const BLOCK = 320; // samples

const cpuS = () => Object.values(process.cpuUsage()).reduce((a, b) => a + b) / 1e6;

const [model, lm, punctuation, neuralLm, ...files] = process.argv.slice(2);
const recognizer = await Recognizer.load({ model, lm, punctuation, neuralLm });
const loadCpuS = cpuS();
const texts = [];
let audioS = 0, busyS = 0;
for (const file of files) {
  const { samples } = readWav(await readFile(file));
  audioS += samples.length / 16000;
  const start = cpuS();
  const stream = recognizer.stream();
  const events = [];
  for (let begin = 0; begin < samples.length; begin += BLOCK) {
    events.push(...(await stream.accept(samples.subarray(begin, begin + BLOCK))));
  }
  events.push(...(await stream.finish()));
  busyS += cpuS() - start;
  texts.push(events.filter(({ type }) => type === "final").map(({ raw }) => raw).join(" "));
}
const rssMb = process.memoryUsage.rss() / 1e6;
console.log(JSON.stringify({ texts, load_cpu_s: loadCpuS, rtf: busyS / audioS, rss_mb: rssMb }));
