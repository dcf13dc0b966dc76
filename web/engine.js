// Recognition by the server of this page, over vosk-server's protocol at `vosk`.
//
// If the connection breaks, a new one is opened and audio that is not in a final yet is sent again; its text comes a
// little later. A server that stops sends a final of the audio so far, which may end within a word. So the last final
// of a connection does not count.

import { Outbox } from "./outbox.js";

export const FIGURES = [["behind", "Behind by"], ["connection", "Connection"]];

const MAX_UNANSWERED = 16; // messages in flight: enough to catch up quickly, but not to flood the server
const AFTER_WORD_S = 0.4; // kept of the final silence: the last word may extend beyond its end
const UNSHOWN_S = 3; // a word spoken this long ago must be in a partial
const CAUGHT_UP_S = 1;
const DEAD_MS = 15_000; // without a due reply for this long, the connection is considered dead
const RETRY_MS = 500, MAX_RETRY_MS = 15_000;
const TOKEN_PREFIX = "openai-insecure-api-key."; // subprotocol for a token: a page cannot set headers
const TOKEN_NEEDED = Symbol("a token is needed");

export const createEngine = (page) => new Engine(page);

class Engine {
  #page;
  #outbox = null; // from `begin` until the last words have arrived
  #sampleRate;
  #endedAt; // null while listening
  #partial;
  #lastFinal; // {text, doneS: end of the audio it covers} of the last reply, if that was a final

  #socket = null;
  #startS; // start of the connection's stream in the recording
  #reply; // the last one: {endS, receivedAt} of the audio that it covers, and its time of arrival (at)
  #eofSent;
  #serverError; // the last error of the server
  #retryMs;
  #retry = null;
  #watch;

  constructor(page) {
    this.#page = page;
    window.addEventListener("online", () => this.#retry && this.#connect());
  }

  async load() {
    const amiss = await whatIsAmiss();
    if (amiss === TOKEN_NEEDED) await this.#askForToken();
    else if (amiss) this.#page.showError(amiss);
  }

  begin(sampleRate) {
    this.#outbox = new Outbox(sampleRate);
    this.#sampleRate = sampleRate;
    this.#endedAt = null;
    this.#partial = "";
    this.#lastFinal = this.#reply = null;
    this.#retryMs = RETRY_MS;
    this.#watch = setInterval(() => this.#checkReplies(), 1000);
    this.#connect();
  }

  audio(samples, receivedAt) {
    this.#outbox?.add(samples, receivedAt);
    this.#send();
  }

  get behindS() {
    return this.#outbox?.behindS ?? 0;
  }

  end() {
    this.#endedAt = performance.now();
    this.#outbox?.flush(this.#endedAt);
    this.#send();
  }

  abandon() {
    if (!this.#outbox) return;
    const lostS = this.#outbox.behindS, { startS: start } = this.#outbox.rewind(); // of the audio without a final
    if (this.#partial) {
      const [text, end] = [this.#partial, this.#reply.endS];
      this.#page.show([{ type: "final", text, start, end, words: [{ word: text, start, end }] }], this.#endedAt);
    }
    this.#finish();
    this.#page.showError(`The last ${lostS.toFixed(0)} s of speech are not recognized.`);
  }

  // --- replies ---

  #send() {
    if (this.#socket?.readyState === WebSocket.OPEN) {
      let message;
      while (this.#outbox.numUnanswered < MAX_UNANSWERED && (message = this.#outbox.next())) {
        this.#socket.send(message.samples);
      }
      if (this.#endedAt && !this.#eofSent && this.#outbox.allSent) {
        this.#eofSent = true;
        this.#socket.send('{"eof": 1}');
      }
    }
    if (this.#outbox) this.#page.figure("behind", `${this.#outbox.behindS.toFixed(1)} s`);
  }

  #run({ error, text, partial = "", num_stable = 0, result = [] }) {
    this.#serverError = error;
    if (error) return; // the server closes the connection
    if (this.#retryMs !== RETRY_MS) {
      this.#retryMs = RETRY_MS;
      this.#page.showError("");
    }
    if (this.#lastFinal) this.#outbox.drop(this.#lastFinal.doneS);
    this.#lastFinal = null;
    const message = this.#outbox.answered(); // undefined: the last reply of the stream
    if (message) this.#reply = { endS: message.endS, receivedAt: message.receivedAt };
    else if (this.#eofSent) this.#reply.receivedAt = this.#endedAt;
    this.#reply.at = performance.now();
    this.#page.show(text ? [this.#final(text, result)] : this.#changed(partial, num_stable), this.#reply.receivedAt);
    if (!this.#partial && !this.#lastFinal) this.#outbox.drop(this.#reply.endS - UNSHOWN_S);
    if (this.#eofSent && !message) this.#finish();
    else this.#send();
  }

  #final(text, result) {
    const words = result.map(({ word, start, end, conf }) => {
      return { word, start: start + this.#startS, end: end + this.#startS, confidence: conf };
    });
    const { start } = words[0], { end } = words.at(-1);
    this.#partial = "";
    this.#lastFinal = { text, doneS: end + Math.min(AFTER_WORD_S, (this.#reply.endS - end) / 2) };
    return { type: "final", text, start, end, words };
  }

  #changed(text, numStable) {
    // Text from before the connection broke is shown until its audio has been recognized again.
    if (text === this.#partial || (!text && this.#outbox.behindS > CAUGHT_UP_S)) return [];
    this.#partial = text;
    return [{ type: "partial", text, start: this.#startS, end: this.#reply.endS, words: [], numStable }];
  }

  #finish() {
    this.#drop();
    clearInterval(this.#watch);
    clearTimeout(this.#retry);
    this.#retry = this.#outbox = null;
    this.#page.figure("behind", "–");
    this.#page.figure("connection", "–");
    this.#page.ended();
  }

  // --- connection ---

  #connect() {
    clearTimeout(this.#retry);
    this.#retry = null;
    const url = new URL("vosk", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.search = url.hash = "";
    const token = sessionStorage.getItem("token");
    const socket = new WebSocket(url, token ? ["vosk", TOKEN_PREFIX + subprotocol(token)] : []);
    socket.onopen = () => this.#opened();
    socket.onmessage = ({ data }) => this.#run(JSON.parse(data));
    socket.onclose = () => this.#lost();
    this.#socket = socket;
    this.#reply = { ...this.#reply, at: performance.now() };
    this.#page.figure("connection", "connecting");
    this.#page.status("Connecting …");
  }

  #opened() {
    const { startS, lostS } = this.#outbox.rewind();
    this.#startS = startS;
    this.#reply = { endS: startS, receivedAt: performance.now(), at: performance.now() };
    this.#eofSent = false;
    if (lostS) {
      const text = `[${lostS.toFixed(0)} s were not recognized: the server was away for too long]`;
      this.#page.show([{ type: "gap", text, start: startS - lostS, end: startS, words: [] }], this.#reply.receivedAt);
    }
    const config = { sample_rate: this.#sampleRate, words: 1, num_stable: 1, text: "default" };
    this.#socket.send(JSON.stringify({ config }));
    this.#page.figure("connection", "open");
    this.#page.status(this.#endedAt ? "Recognizing the last words …" : "Listening.");
    this.#send();
  }

  // The connection has ended or was never open.
  async #lost() {
    this.#drop();
    if (this.#lastFinal) {
      this.#page.takeBack();
      this.#partial = this.#lastFinal.text;
      this.#lastFinal = null;
    }
    this.#page.figure("connection", "lost");
    this.#page.status("Not connected.");
    const outbox = this.#outbox, amiss = await whatIsAmiss({ refused: true });
    if (!outbox || this.#outbox !== outbox) return; // abandoned in the meantime
    if (amiss === TOKEN_NEEDED) return this.#connectWithToken();
    const delayMs = this.#retryMs * (0.8 + 0.4 * Math.random()); // so that pages do not all reconnect at once
    this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
    this.#retry = setTimeout(() => this.#connect(), delayMs);
    this.#page.status(`Connecting again in ${Math.ceil(delayMs / 1000)} s …`);
    const why = this.#serverError ? `The server says: ${this.#serverError}.` : amiss || "The connection broke.";
    this.#page.showError(`${why} Speech is kept, and will be recognized when it is back.`);
  }

  #drop() {
    if (!this.#socket) return;
    this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
    this.#socket = null;
  }

  #checkReplies() {
    const due = this.#socket?.readyState !== WebSocket.OPEN || this.#eofSent || this.#outbox.numUnanswered > 0;
    if (this.#socket && due && performance.now() - this.#reply.at > DEAD_MS) this.#lost();
  }

  async #connectWithToken() {
    if (await this.#askForToken()) return this.#connect();
    this.#page.failed("The server needs a token.");
    this.#finish();
  }

  // Resolves to whether the user has entered a token that the server accepts.
  async #askForToken() {
    let hint = "Ask the operator of the server for it.";
    for (;;) {
      const token = await this.#page.askForToken(hint);
      if (token === null) return false;
      sessionStorage.setItem("token", token);
      if ((await whatIsAmiss()) !== TOKEN_NEEDED) return true;
      hint = "The server does not accept this token.";
    }
  }
}

// Returns a sentence, TOKEN_NEEDED, or "" if no fault is found. A rejected WebSocket gives no reason.
async function whatIsAmiss({ refused = false } = {}) {
  const ask = (path, options) =>
    fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(5000) }).catch(() => null);
  const health = await ask("healthz");
  if (!health) return "The server does not answer.";
  const { status, sessions, max_sessions } = await health.json().catch(() => ({}));
  if (status === "stopping") return "The server is shutting down.";
  if (sessions >= max_sessions) return `All ${max_sessions} streams of the server are taken.`;
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${encodeURIComponent(token)}` } : {};
  const metrics = await ask("metrics", { headers });
  if (metrics?.status === 401) return TOKEN_NEEDED;
  // The server has no such endpoint, but the browser sends the page's origin with a POST, as for a WebSocket.
  const stranger = refused && (await ask("healthz", { method: "POST" }))?.status === 403;
  return stranger ? `The server does not know this page: start it with --allow-origin ${location.origin}.` : "";
}

// A subprotocol allows few special characters; the server decodes it.
function subprotocol(token) {
  return encodeURIComponent(token).replace(/[()]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
}
