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

/** Options of `Recognizer.load` except `ort` and `phrases`, which grammars replace. URLs are relative to the page. */
export interface LoadOptions extends Omit<RecognizerOptions, "ort" | "phrases"> {
  /**
   * URLs of ONNX Runtime's `ort.wasm.bundle.min.mjs` and `ort-wasm-simd-threaded.wasm`, for a page without a bundler,
   * which cannot find `onnxruntime-web` by its name.
   */
  runtime?: { module: string | URL; wasm: string | URL };
}

export type SpeechRecognitionErrorCode =
  /** No word in 8 s; never with `continuous`. */
  | "no-speech"
  /** `abort()` was called, or the model could not be run; `message` says which. */
  | "aborted"
  /** There is no microphone, it cannot be opened, it was disconnected, or the browser gives no audio for 10 s. */
  | "audio-capture"
  /** The models cannot be loaded. */
  | "network"
  /** The user or the browser refuses the microphone. */
  | "not-allowed"
  /** `lang` is not the language of the model. */
  | "language-not-supported"
  /** The model cannot spell any of the phrases, or the recognizer does not accept phrases. */
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
  /** Text. All results but the first begin with a space, so that the joined transcripts form a text. */
  readonly transcript: string;
  /**
   * In (0, 1). For the first alternative and for phrases of a grammar: the mean over their words of the probability
   * that a word is right. For other alternatives: the probability of the sentence. 0 if `transcript` is empty.
   */
  readonly confidence: number;
}

/** An utterance, or what has been recognized of it so far: alternatives, most likely first. */
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
  /** The first result that has changed; `results.length` in a nomatch event. */
  readonly resultIndex: number;
  /** All finals of the session, and the interim result, if any, whose transcript is "" when it is withdrawn. */
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
 * The events in their order. An interim result comes before `speechend`. So does a final result while recognition
 * continues (`continuous`); the last final result of a session comes after `audioend`.
 */
export interface SpeechRecognitionEventMap {
  /** The recognizer is listening. */
  start: Event;
  /** The first audio of the microphone has arrived. */
  audiostart: Event;
  /** The audio was louder than -40 dBFS. */
  soundstart: Event;
  /** The first word was recognized. Once per session, as are the two above. */
  speechstart: Event;
  speechend: Event;
  soundend: Event;
  audioend: Event;
  result: SpeechRecognitionEvent;
  /** There was speech, but no phrase of the grammars. */
  nomatch: SpeechRecognitionEvent;
  error: SpeechRecognitionErrorEvent;
  /** Always the last event. */
  end: Event;
}

/** Languages that a page requests, as BCP 47 tags. */
export interface SpeechRecognitionOptions {
  langs: string[];
  processLocally?: boolean;
}

type Handler<Type extends keyof SpeechRecognitionEventMap> =
  ((this: SpeechRecognition, event: SpeechRecognitionEventMap[Type]) => unknown) | null;

export class SpeechRecognition extends EventTarget {
  /**
   * Loads the models of the page once, ideally when the page opens. progress(numBytes, numTotal): called while files
   * are fetched; numTotal is null until the server has said how large each is.
   * A second call with the same options returns the same promise's result; with other options it rejects with
   * InvalidStateError. A recognition that starts earlier waits for the models, and one that starts after a failure
   * tries again. Rejects as `Recognizer.load` does.
   */
  static load(options?: LoadOptions, progress?: (numBytes: number, numTotal: number | null) => void): Promise<void>;
  /** "available" if the models are loaded and support all these languages; "downloadable" after a failure. */
  static available(
    options: SpeechRecognitionOptions,
  ): Promise<"unavailable" | "downloadable" | "downloading" | "available">;
  /** Loads the models given to `load`; resolves to whether they support all these languages. */
  static install(options: SpeechRecognitionOptions): Promise<boolean>;

  /** A BCP 47 tag, such as "en-US"; "" (the default): that of the page, or any if the page states none. */
  lang: string;
  /** Whether to listen until `stop`, utterance after utterance; false (the default): until the first final result. */
  continuous: boolean;
  /** Whether to report results before they are final; false by default. */
  interimResults: boolean;
  /** Maximum alternatives of a final result, up to 21; 1 by default. Interim results have one. */
  maxAlternatives: number;
  /** Without effect: nothing leaves this device in any case. */
  processLocally: boolean;
  /** If not empty, results have only phrases of these grammars. */
  grammars: SpeechGrammarList;
  /** Expected phrases. Those that the model cannot spell are skipped. */
  phrases: SpeechRecognitionPhrase[];

  /**
   * audioTrack: in place of the microphone; it stays open, and when it ends, the session ends. Throws InvalidStateError
   * when it has been started and neither `error` nor `end` has come, and for a track that is not live audio.
   */
  start(audioTrack?: MediaStreamTrack): void;
  /** Ends the audio; the last words follow. */
  stop(): void;
  /** Ends the session: no result follows, only an error event "aborted". */
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
