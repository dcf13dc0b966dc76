// Builds the page in page/, a folder for any static web server: the server's page with an engine that recognizes in the
// browser.
//
//     node web/build.mjs [--model FILE.onnx] [--lm FILE.lm] [--neural-lm FILE.onnx] [--punctuation FILE.onnx]
//         [--output page]
// The files are the bundled ones by default.
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

function fail(text) {
  console.error(`build: ${text}`);
  process.exit(1);
}

const js = new URL("../", import.meta.url);
const models = new URL("../asr/models/", js);

const { values } = parseArgs({
  options: {
    model: { type: "string" }, lm: { type: "string" }, "neural-lm": { type: "string" },
    punctuation: { type: "string" }, output: { type: "string" },
  },
});
const page = values.output ? pathToFileURL(`${values.output}/`) : new URL("page/", js);
const sources = {
  "asr-stream/src/": new URL("src/", js),
  "asr-stream/dist/": new URL("dist/", js),
  "ort/ort.wasm.bundle.min.mjs": new URL("node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs", js),
  "ort/ort-wasm-simd-threaded.wasm": new URL("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm", js),
  "model.onnx": values.model ?? new URL("tiny.int8.onnx", models),
  "language.lm": values.lm ?? new URL("english.lm", models),
  "neural.onnx": values["neural-lm"] ?? new URL("english.neural.onnx", models),
  "punctuation.onnx": values.punctuation ?? new URL("english.punctuation.onnx", models),
};
const shared = new URL("../web/", js);
for (const name of ["style.css", "app.js", "captions.js", "capture.js", "file.js", "microphone.js", "subtitles.js"]) {
  sources[name] = new URL(name, shared);
}
sources["dictation.html"] = new URL("examples/dictation.html", js);
for (const name of ["engine.js", "service_worker.js"]) sources[name] = new URL(`web/${name}`, js);

const folder = fileURLToPath(page);
const paths = Object.values(sources).map((source) => (source instanceof URL ? fileURLToPath(source) : resolve(source)));
const missing = paths.find((path) => !existsSync(path));
if (missing) fail(`there is no ${missing}`);
const inside = paths.find((path) => path.startsWith(folder));
if (inside) fail(`${inside} would be deleted: --output must be another folder`);
if (values.output && existsSync(folder) && readdirSync(folder).length && !existsSync(new URL("files.js", page))) {
  fail(`${folder} has other files than a page built here, which would be deleted: --output must be a new folder`);
}
await rm(page, { recursive: true, force: true });
await mkdir(page, { recursive: true });
for (const [name, source] of Object.entries(sources)) {
  await cp(source, new URL(name, page), { recursive: true, filter: (path) => !path.endsWith(".d.ts") });
}

// The server's header becomes a meta element here, and no request leaves this device.
const html = await readFile(new URL("index.html", shared), "utf8");
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; " +
  "worker-src 'self'; img-src data:; base-uri 'none'; form-action 'none'";
const about = "Speech becomes text on this device. No sound and no text leaves it.";
await writeFile(new URL("index.html", page), html
  .replace("<head>", `<head>\n    <meta http-equiv="Content-Security-Policy" content="${policy}">`)
  .replace(/(<p id="about">)[^<]*/, `$1${about}`));

const files = [];
for (const entry of await readdir(page, { recursive: true, withFileTypes: true })) {
  if (entry.isFile()) files.push(relative(fileURLToPath(page), join(entry.parentPath ?? entry.path, entry.name)));
}
files.sort();
const hash = createHash("sha256");
for (const file of files) hash.update(await readFile(new URL(file, page)));
const version = hash.digest("hex").slice(0, 16);
await writeFile(new URL("files.js", page), `self.PAGE = ${JSON.stringify({ version, files: ["./", ...files] }, null, 2)};\n`);
