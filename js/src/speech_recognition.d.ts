/**
 * `SpeechRecognition` of the Web Speech API (https://webaudio.github.io/web-speech-api/), on this device.
 *
 *     import "asr-stream/speech-recognition";   // takes the place of the browser's own, if there is one
 *
 *     SpeechRecognition.load({ model: "/models/tiny.int8.onnx", lm: "/models/english.lm" });
 *     const recognition = new SpeechRecognition();
 *     recognition.onresult = ({ results }) => console.log(results[0][0].transcript);
 *     button.onclick = () => recognition.start();
 */
import type { RecognizerOptions } from "./index.js";

/** Options of `Recognizer.load` that reach a worker: all but functions and `ort`. URLs are relative to the page. */
export interface LoadOptions extends Omit<RecognizerOptions, "ort" | "progress" | "phrases"> {
  /**
   * URLs of ONNX Runtime's `ort.wasm.bundle.min.mjs` and `ort-wasm-simd-threaded.wasm`, for a page without a bundler,
   * which cannot find `onnxruntime-web` by its name.
   */
  runtime?: { module: string | URL; wasm: string | URL };
}

export type SpeechRecognitionErrorCode =
  /** 8 s without a word; never when `continuous`. */
  | "no-speech"
  /** By `abort()`, or because the network could not be run; `message` says which. */
  | "aborted"
  /** There is no microphone, it cannot be opened, or it was disconnected. */
  | "audio-capture"
  /** The models cannot be loaded. */
  | "network"
  /** The user or the browser refuses the microphone. */
  | "not-allowed"
  /** `lang` is not the language that the model writes. */
  | "language-not-supported"
  /** A phrase cannot be spelled in the letters of the model. */
  | "phrases-not-supported"
  /** A grammar cannot be read; see SpeechGrammarList. */
  | "bad-grammar";

export class SpeechRecognitionErrorEvent extends Event {
  constructor(type: string, init: EventInit & { error: SpeechRecognitionErrorCode; message?: string });
  readonly error: SpeechRecognitionErrorCode;
  /** A sentence for developers. */
  readonly message: string;
}

export interface SpeechRecognitionAlternative {
  /** Its text; of all but the first result with a space before it, so that transcripts joined make a text. */
  readonly transcript: string;
  /**
   * In (0, 1): of the first alternative the mean over its words of the probability that a word is right; of others the
   * probability of the sentence.
   */
  readonly confidence: number;
}

/** An utterance, or what is understood of it so far: alternatives, the likeliest first. */
export interface SpeechRecognitionResult extends Iterable<SpeechRecognitionAlternative> {
  readonly isFinal: boolean;
  readonly length: number;
  item(index: number): SpeechRecognitionAlternative;
  readonly [index: number]: SpeechRecognitionAlternative;
}

export interface SpeechRecognitionResultList extends Iterable<SpeechRecognitionResult> {
  readonly length: number;
  item(index: number): SpeechRecognitionResult;
  readonly [index: number]: SpeechRecognitionResult;
}

export class SpeechRecognitionEvent extends Event {
  constructor(type: string, init: EventInit & { resultIndex?: number; results: SpeechRecognitionResultList });
  /** The first of the results that has changed; `results.length` where an interim result is withdrawn. */
  readonly resultIndex: number;
  /** All finals of the session, and the interim result, if any. */
  readonly results: SpeechRecognitionResultList;
}

export interface SpeechGrammar {
  src: string;
  weight: number;
}

/**
 * Grammars in JSGF whose rules are words with | between them:
 *
 *     #JSGF V1.0; grammar lights; public <command> = lights on | lights off ;
 *
 * Only these phrases are recognized; an utterance with none of them causes a nomatch event. Transcripts are in small
 * letters, without punctuation. Weights are not used.
 */
export class SpeechGrammarList implements Iterable<SpeechGrammar> {
  readonly length: number;
  item(index: number): SpeechGrammar;
  readonly [index: number]: SpeechGrammar;
  addFromString(string: string, weight?: number): void;
  addFromUri(src: string, weight?: number): void;
  addFromURI(src: string, weight?: number): void;
  [Symbol.iterator](): Iterator<SpeechGrammar>;
}

/** A word or phrase that is expected. */
export class SpeechRecognitionPhrase {
  /** boost: nats for each of its letters, in [0, 10]; 1 by default. */
  constructor(phrase: string, boost?: number);
  readonly phrase: string;
  readonly boost: number;
}

export interface SpeechRecognitionEventMap {
  /** The recognizer listens. */
  start: Event;
  /** The first sound of the microphone has come. */
  audiostart: Event;
  /** It was louder than -40 dB of full scale. */
  soundstart: Event;
  /** The first word was recognized. Once in a session, as the two before. */
  speechstart: Event;
  result: SpeechRecognitionEvent;
  /** There was speech, but no phrase of the grammars. */
  nomatch: SpeechRecognitionEvent;
  speechend: Event;
  soundend: Event;
  audioend: Event;
  error: SpeechRecognitionErrorEvent;
  /** Always the last. */
  end: Event;
}

type Handler<Type extends keyof SpeechRecognitionEventMap> =
  ((this: SpeechRecognition, event: SpeechRecognitionEventMap[Type]) => unknown) | null;

export class SpeechRecognition extends EventTarget {
  /**
   * Loads the models of the page, once; best when the page opens. progress(numBytes): called as files are fetched. A
   * second call with the same options returns the same promise's result; with others it rejects with InvalidStateError.
   * A recognition that starts earlier waits for the models, and one that starts after a failure tries again. Rejects as
   * `Recognizer.load` does.
   */
  static load(options?: LoadOptions, progress?: (numBytes: number) => void): Promise<void>;

  /** A tag of BCP 47, such as "en-US"; "" (the default) for that of the page, and any where the page names none. */
  lang: string;
  /** Listens until `stop`, utterance after utterance; false (the default): until the first final result. */
  continuous: boolean;
  /** Results before they are final too; false by default. */
  interimResults: boolean;
  /** Of a final result, up to 21; 1 by default. Interim results, and those of a grammar, have one. */
  maxAlternatives: number;
  /** Kept; nothing leaves this device in any case. */
  processLocally: boolean;
  grammars: SpeechGrammarList;
  phrases: SpeechRecognitionPhrase[];

  /**
   * audioTrack: in place of the microphone. Throws InvalidStateError when it is started, and for a track that is not
   * live audio.
   */
  start(audioTrack?: MediaStreamTrack): void;
  /** Ends the audio; the last words follow. */
  stop(): void;
  /** Ends everything: no result follows, but an error event "aborted". */
  abort(): void;

  onstart: Handler<"start">;
  onaudiostart: Handler<"audiostart">;
  onsoundstart: Handler<"soundstart">;
  onspeechstart: Handler<"speechstart">;
  onresult: Handler<"result">;
  onnomatch: Handler<"nomatch">;
  onspeechend: Handler<"speechend">;
  onsoundend: Handler<"soundend">;
  onaudioend: Handler<"audioend">;
  onerror: Handler<"error">;
  onend: Handler<"end">;

  addEventListener<Type extends keyof SpeechRecognitionEventMap>(
    type: Type, listener: Handler<Type>, options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions,
  ): void;
}
