// Tests the server's page when its connection breaks: the captions that remain, and the number of connections.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { beforeEach, mock, test } from "node:test";

const source = async (name) => readFile(new URL(`../../web/${name}`, import.meta.url), "utf8");
const url = (text) => `data:text/javascript;base64,${Buffer.from(text).toString("base64")}`; // web has no package.json
const outbox = url(await source("outbox.js"));
const { createEngine } = await import(url((await source("engine.js")).replace("./outbox.js", outbox)));

const RATE = 16000;
let sockets, shown, engine, health;

class Socket {
  static OPEN = 1;
  readyState = 0;

  constructor() {
    sockets.push(this);
  }

  send() {}

  close() {
    this.readyState = 3;
  }

  open() {
    this.readyState = Socket.OPEN;
    this.onopen();
  }

  reply(...messages) {
    for (const message of messages) this.onmessage({ data: JSON.stringify(message) });
  }
}

Object.assign(globalThis, {
  WebSocket: Socket,
  location: { href: "http://localhost/", origin: "http://localhost" },
  sessionStorage: { getItem: () => null },
  window: { addEventListener() {} },
  fetch: () => health(),
});
mock.timers.enable({ apis: ["setTimeout", "setInterval"] });

beforeEach(() => {
  [sockets, shown] = [[], []];
  health = () => Promise.reject(new Error("no answer"));
  const page = { show: (events) => shown.push(...events) };
  for (const name of ["status", "figure", "showError", "takeBack", "ended"]) page[name] = () => {};
  engine = createEngine(page);
});

function record(seconds) {
  engine.begin(RATE);
  sockets.at(-1).open();
  for (let i = 0; i < 10 * seconds; i++) engine.audio(new Float32Array(RATE / 10), 0);
}

const turns = () => new Promise((resolve) => setImmediate(resolve));

test("a partial without an answer becomes a final of its own time", async () => {
  record(3);
  const word = { word: "first", start: 0.2, end: 0.9, conf: 0.9 };
  sockets[0].reply(...Array(10).fill({}), { text: "first", result: [word] }, { partial: "hello" });
  sockets[0].onclose();
  await turns();
  mock.timers.tick(1000);
  assert.equal(sockets.length, 2); // it tries again
  engine.end();
  engine.abandon();
  const { type, text, start, end } = shown.at(-1);
  assert.deepEqual([type, text, start, end], ["final", "hello", 1, 1.2]);
});

test("the last final of a broken connection is kept when its audio is abandoned", async () => {
  record(3);
  const word = { word: "hello", start: 0.2, end: 0.9, conf: 0.9 };
  sockets[0].reply(...Array(10).fill({}), { text: "hello", result: [word] });
  sockets[0].onclose(); // the page shows the final as a partial again, because it may end within a word
  await turns();
  engine.end();
  engine.abandon();
  const { type, text, start, end } = shown.at(-1);
  assert.deepEqual([type, text, start, end], ["final", "hello", 0, 1.1]);
  assert.equal(shown.length, 2);
});

test("a new recording has one connection", async () => {
  let answer;
  const asked = new Promise((resolve) => (answer = resolve));
  health = () => asked;
  record(1);
  sockets[0].onclose(); // the page asks the server for the reason, which takes a while
  engine.end();
  engine.abandon();
  record(1);
  answer(null);
  await turns();
  mock.timers.tick(1000);
  assert.equal(sockets.length, 2);
  assert.equal(sockets[1].readyState, Socket.OPEN);
});
