// Caches all files of the page, so that it opens offline. build.mjs writes files.js, whose version depends on every
// byte of them, so that the browser fetches changed files again.

importScripts("files.js");
const { version, files } = self.PAGE;
const NAME = `asr-stream ${version}`;

// Past the browser's HTTP cache, which may have the files of another version.
const fresh = (file) => new Request(file, { cache: "reload" });

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(files.map(fresh))));
});

self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    const old = (await caches.keys()).filter((name) => name.startsWith("asr-stream ") && name !== NAME);
    await Promise.all(old.map((name) => caches.delete(name)));
  })());
});

self.addEventListener("fetch", (event) => {
  event.respondWith(caches.open(NAME).then((cache) => cache.match(event.request, { ignoreSearch: true }))
    .then((kept) => kept ?? fetch(event.request)));
});
