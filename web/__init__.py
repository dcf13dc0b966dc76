"""The page for live captions, plain files without a build: `asr-stream serve` shows it (asr.streaming.server.page).

`js/web/build.mjs` makes another page of them, which recognizes in the browser: it brings its own `engine.js`.
"""
