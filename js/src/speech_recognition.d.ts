/**
 * `SpeechRecognition` of the Web Speech API (https://webaudio.github.io/web-speech-api/), on this device.
 *
 *     import "asr-stream/speech-recognition";   // replaces the browser's own, if there is one
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
  /** 8 s without a word; never with `continuous`. */
  | "no-speech"
  /** By `abort()`, or because the model could not be run; `message` says which. */
  | "aborted"
  /** There is no microphone, it cannot be opened, it was disconnected, or the browser gives no audio for 10 s. */
  | "audio-capture"
  /** The models cannot be loaded. */
  | "network"
  /** The user or the browser refuses the microphone. */
  | "not-allowed"
  /** `lang` is not the language that the model writes. */
  | "language-not-supported"
  /** No phrase can be spelled in the letters of the model, or the recognizer takes none. */
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
  /** Text; of all but the first result with a space before it, so that joined transcripts make a text. */
  readonly transcript: string;
  /**
   * In (0, 1): of the first alternative and of phrases of a grammar the mean over their words of the probability that a
   * word is right; of other alternatives the probability of the sentence.
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
 * These phrases are expected, as `phrases` are. Results have nothing else: an utterance without any of them causes a
 * nomatch event. Transcripts are in lower case, without punctuation. Weights are not used.
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
  /** boost: added to the log-probability of the phrase, in nats, in [0, 10]; 1 by default. */
  constructor(phrase: string, boost?: number);
  readonly phrase: string;
  readonly boost: number;
}

/**
 * In this order. An interim result comes before `speechend`; a final result as well while the recognition listens on
 * (`continuous`), and after `audioend` if it is the last of the session.
 */
export interface SpeechRecognitionEventMap {
  /** The recognizer listens. */
  start: Event;
  /** The first audio of the microphone has come. */
  audiostart: Event;
  /** It was louder than -40 dB of full scale. */
  soundstart: Event;
  /** The first word was recognized. Once in a session, as the two before. */
  speechstart: Event;
  speechend: Event;
  soundend: Event;
  audioend: Event;
  result: SpeechRecognitionEvent;
  /** There was speech, but no phrase of the grammars. */
  nomatch: SpeechRecognitionEvent;
  error: SpeechRecognitionErrorEvent;
  /** Always the last. */
  end: Event;
}

/** Languages that a page asks for, tags of BCP 47. */
export interface SpeechRecognitionOptions {
  langs: string[];
  processLocally?: boolean;
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
  /** "available" when the models are loaded and write all these languages; "downloadable" after a failure. */
  static available(
    options: SpeechRecognitionOptions,
  ): Promise<"unavailable" | "downloadable" | "downloading" | "available">;
  /** Loads the models that `load` was told; resolves to whether they write all these languages. */
  static install(options: SpeechRecognitionOptions): Promise<boolean>;

  /** A tag of BCP 47, such as "en-US"; "" (the default) for that of the page, and any where the page names none. */
  lang: string;
  /** Listens until `stop`, utterance after utterance; false (the default): until the first final result. */
  continuous: boolean;
  /** Results before they are final too; false by default. */
  interimResults: boolean;
  /** Of a final result, up to 21; 1 by default. Interim results have one. */
  maxAlternatives: number;
  /** Without effect: nothing leaves this device in any case. */
  processLocally: boolean;
  /** The only phrases that results may have. */
  grammars: SpeechGrammarList;
  /** Phrases that are expected. Those that the model cannot write are left out. */
  phrases: SpeechRecognitionPhrase[];

  /**
   * audioTrack: in place of the microphone. Throws InvalidStateError when it has been started and neither `error` nor
   * `end` has come, and for a track that is not live audio.
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
