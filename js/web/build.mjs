// Puts the page together: page/, a folder for any web server of files.
//
//     node web/build.mjs [--model FILE.onnx] [--lm FILE.lm] [--output page]     by default the bundled ones
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const js = new URL("../", import.meta.url);
const models = new URL("../asr/models/", js);

const { values } = parseArgs({
  options: { model: { type: "string" }, lm: { type: "string" }, output: { type: "string" } },
});
const page = values.output ? pathToFileURL(`${values.output}/`) : new URL("page/", js);
const sources = {
  "asr-stream/src/": new URL("src/", js),
  "asr-stream/dist/": new URL("dist/", js),
  "ort/ort.wasm.bundle.min.mjs": new URL("node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs", js),
  "ort/ort-wasm-simd-threaded.wasm": new URL("node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm", js),
  "model.onnx": values.model ?? new URL("tiny.int8.onnx", models),
  "language.lm": values.lm ?? new URL("english.lm", models),
};
for (const name of ["index.html", "style.css", "app.js", "capture.js", "worker.js", "service_worker.js"]) {
  sources[name] = new URL(`web/${name}`, js);
}

await rm(page, { recursive: true, force: true });
await mkdir(page, { recursive: true });
for (const [name, source] of Object.entries(sources)) {
  await cp(source, new URL(name, page), { recursive: true, filter: (path) => !path.endsWith(".d.ts") });
}

const files = [];
for (const entry of await readdir(page, { recursive: true, withFileTypes: true })) {
  if (entry.isFile()) files.push(relative(fileURLToPath(page), join(entry.parentPath ?? entry.path, entry.name)));
}
files.sort();
const hash = createHash("sha256");
for (const file of files) hash.update(await readFile(new URL(file, page)));
const version = hash.digest("hex").slice(0, 16);
await writeFile(new URL("files.js", page), `self.PAGE = ${JSON.stringify({ version, files: ["./", ...files] }, null, 2)};\n`);
