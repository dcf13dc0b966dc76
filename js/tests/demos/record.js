// Records the events and messages of a page's SpeechRecognition for the tests.

// Every event: [type, error, resultIndex, [[transcript, isFinal, number of alternatives, confidence], ...]].
window.events = [];
const dispatch = EventTarget.prototype.dispatchEvent;
SpeechRecognition.prototype.dispatchEvent = function (event) {
  const results = event.results && Array.from(event.results, (result) =>
    [result[0].transcript, result.isFinal, result.length, result.item(0).confidence]);
  (this.seen ??= []).push([event.type, event.error ?? null, event.resultIndex ?? null, results ?? null]);
  window.events.push(this.seen.at(-1));
  return dispatch.call(this, event);
};

// Messages to the workers: the number that load a recognizer, and each stream's audio, {sampleRate, samples}. While
// `held` is a list, messages wait in it, as they do when the worker is busy.
window.numWorkers = 0;
window.streams = [];
window.held = null;
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, transfer) {
  if (message.type === "load") window.numWorkers++;
  if (message.type === "open") window.streams[message.id - 1] = { sampleRate: message.sampleRate, samples: [] };
  if (message.type === "audio") window.streams[message.id - 1].samples.push(...message.samples);
  if (window.held) window.held.push(() => post.call(this, message, transfer));
  else post.call(this, message, transfer);
};
window.holdFor = (milliseconds) => {
  window.held = [];
  setTimeout(() => {
    const waiting = window.held;
    window.held = null;
    for (const send of waiting) send();
  }, milliseconds);
};
