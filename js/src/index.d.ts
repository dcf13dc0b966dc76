/** A recognized word. Times in seconds since the start of the stream. */
export interface Word {
  word: string;
  start: number;
  end: number;
  /** Probability in (0, 1) that the word is right. */
  confidence: number;
}

/**
 * An event of a stream.
 *
 * - partial: the current utterance as recognized so far; may be empty. The next partial or final replaces it.
 * - final: an utterance that has ended; it does not change. It is empty only if it consisted of spoken commands.
 * - gap: audio between `start` and `end` never arrived. A final ended the utterance before it.
 * - error: a problem with the audio; the stream continues.
 */
export interface StreamEvent {
  type: "partial" | "final" | "gap" | "error";
  /** The words as shown, separated by spaces; for gap and error a sentence for people. */
  text: string;
  /** Seconds since the start of the stream; lost audio counts as time. */
  start: number;
  end: number;
  /**
   * The words of `text`. A word that stands for several spoken words, such as "9:30", has their times and their lowest
   * confidence. Empty for gap and error.
   */
  words: Word[];
  /** For a partial and a final: the words as recognized. */
  raw?: string;
  rawWords?: Word[];
  /**
   * For a partial: the number of leading words that hardly change in a later one. (A second pass encodes the whole
   * utterance, so its final may still differ.)
   */
  numStable?: number;
  /** For a final: this many earlier finals that are not yet taken back are taken back ("scratch that"). */
  numTakenBack?: number;
  /**
   * For a final: the rule that ended the utterance. A gap is an end of audio. An utterance without words
   * ("silence_without_speech") ends without a final.
   */
  endpoint?: "silence_after_speech" | "silence_without_speech" | "max_utterance" | "end_of_audio";
  /** For a final, with the option maxAlternatives: other hypotheses, most likely first. */
  alternatives?: Alternative[];
}

export interface Alternative {
  /** The words as shown, without punctuation, separated by spaces. */
  text: string;
  /** The probability that this is what was said. */
  confidence: number;
  words: Word[];
}

/** The part of ONNX Runtime's JavaScript API that is used; onnxruntime-web and onnxruntime-node have it. */
export interface Runtime {
  InferenceSession: { create(model: Uint8Array, options?: any): Promise<any> };
  Tensor: new (type: any, data: any, dims: readonly number[]) => any;
}

/** Options of recognition. */
export interface Options {
  // <options> written by python scripts/write_options.py
  /** audio per step; text appears once per chunk; a multiple of 40 in [40, 5120]; default: the model file's, usually
   * 640 */
  chunkMs?: number;
  /** audio before the chunk that the encoder attends to; a multiple of 40 in [0, 20480]; default: the model file's,
   * usually 2560 */
  leftContextMs?: number;
  /** greedy, beam (CTC prefix beam search), rescore (beam; the attention decoder, if its file is open, rescores
   * finals of a search over letters), or joint (beam; finals come from a search by the attention decoder and CTC,
   * without a language model); default: rescore */
  search?: "greedy" | "beam" | "rescore";
  /** encode each finished utterance a second time, which corrects its final text; default: true */
  secondPass?: boolean;
  /** use the language models, n-gram and neural; search greedy takes none, search joint no n-gram one; default:
   * true */
  useLm?: boolean;
  /** hypotheses kept by the beam search; the finals of search joint come from 8; a whole number in [1, 1024];
   * default: 256 */
  beamSize?: number;
  /** hypotheses of a search over letters that the attention decoder rescores; more of them delay finals; a whole
   * number in [1, 1024]; default: 4 */
  numRescored?: number;
  /** how words are shown: formatted (numbers in digits; in English, case and punctuation) or plain; default:
   * formatted */
  text?: "formatted" | "plain";
  /** nats below the best hypothesis at which another one is dropped; in (0, 100]; default: 11 */
  beamThreshold?: number;
  /** weight of the first pass in rescoring; the decoder's weight is the rest; in [0, 1]; default: the model file's,
   * usually 0.7 */
  rescoreCtcWeight?: number;
  /** weight of CTC in search joint; the decoder's weight is the rest; in [0, 1]; default: 0.3 */
  jointCtcWeight?: number;
  /** weight of the language model's log-probabilities; in [0, 10]; default: the model file's, usually 0.95 */
  lmWeight?: number;
  /** added for each word if there is a language model; in [-20, 20]; default: the model file's, usually -2.4 */
  lmWordBonus?: number;
  /** subtracted for each word outside the vocabulary of the language model; in [0, 100]; default: the model file's,
   * usually 8 */
  lmOovPenalty?: number;
  /** weight of the bigram log-probabilities of tokens or phones, which are subtracted; in [0, 2]; default: the model
   * file's, usually 0.7 */
  lmPriorWeight?: number;
  /** bonus in nats for each letter of a hotword; in (0, 20]; default: 0.75 */
  hotwordBoost?: number;
  /** with phrases, cost in nats for each phone or letter that becomes [unk]; in (0, 100]; default: 1.5 */
  unknownCost?: number;
  /** an utterance ends after this much silence at the latest, earlier if the sentence sounds complete; inf: never; in
   * (0, inf]; default: 2 */
  silenceAfterSpeechS?: number;
  /** shortest silence before an utterance ends, at most silenceAfterSpeechS; if equal, a fixed timeout; in (0, inf];
   * default: 0.5 */
  minSilenceAfterSpeechS?: number;
  /** silence before an utterance without any words ends; in (0, inf]; default: 5 */
  silenceWithoutSpeechS?: number;
  /** a longer utterance is split at its next pause, or between two words; in (0, 120]; default: 20 */
  maxUtteranceS?: number;
  /** maximum number of other hypotheses in a final, most likely first; search greedy has none; a whole number in [0,
   * 20]; default: 0 */
  maxAlternatives?: number;
  /** obey spoken commands of dictation: comma, new line, all caps, scratch that, ...; default: false */
  commands?: boolean;
  /** spelling of formatted English text: american (color), british (colour), or mixed (as recognized); default:
   * american */
  spelling?: "american" | "british" | "mixed";
  /** expected words and phrases, as they should be written, for the beam searches; after =, words that sound like it
   * (Nguyen = win, new yen); after a colon or tab, its own hotwordBoost; a list, one entry per line; default: none */
  hotwords?: string[];
  /** a grammar that replaces free speech, such as voice commands: other speech becomes [unk]; takes no hotwords, and
   * the language model only pronounces the words; a list, one entry per line; default: none */
  phrases?: string[];
  /** words and phrases to hide: their letters become stars; a list, one entry per line; default: none */
  mask?: string[];
  /** replacements of words and phrases, applied last: my address -> 12 Main Street; a list, one entry per line;
   * default: none */
  replace?: string[];
  /** your own spoken commands, such as next item -> new line; a list turns commands on; a list, one entry per line;
   * default: none */
  ownCommands?: string[];
  // </options>
}

/** The options and the models. */
export interface RecognizerOptions extends Options {
  /** An exported `.onnx` file: its URL, its bytes, or, in Node, its path. */
  model: string | URL | Uint8Array | ArrayBuffer;
  /** Language model for the beam searches, a file from `asr lm`; null (the default) for none. */
  lm?: string | URL | Uint8Array | ArrayBuffer | null;
  /** Neural language model that rescores finals, a file of `asr export`, with or without an lm; not with search greedy
   * or phrases. null (the default) for none. */
  neuralLm?: string | URL | Uint8Array | ArrayBuffer | null;
  /** Model for case and punctuation, and for endpoints, a file of `asr export`; null (the default) for none. */
  punctuation?: string | URL | Uint8Array | ArrayBuffer | null;
  /** Attention decoder for search rescore, the file NAME.decoder.onnx that `asr export` writes beside the model; null
   * (the default) for none. */
  decoder?: string | URL | Uint8Array | ArrayBuffer | null;
  /**
   * The ONNX Runtime: `import * as ort from ...`. By default "onnxruntime-web/wasm" is imported and run in one thread;
   * a page without a bundler cannot find it by that name. In Node, `load` disables the telemetry of onnxruntime-node
   * (sets ORT_DISABLE_TELEMETRY=1 unless it is set).
   */
  ort?: Runtime;
  /** Passed to `ort.InferenceSession.create`, e.g. {executionProviders: ["webgpu"]}. */
  sessionOptions?: Record<string, unknown>;
}

/**
 * A model and its options. Any number of streams may share it.
 *
 *     const recognizer = await Recognizer.load({ model: "tiny.int8.onnx" });
 *     const stream = recognizer.stream();
 *     for (const event of await stream.accept(samples)) console.log(event.type, event.text);
 *     for (const event of await stream.finish()) console.log(event.type, event.text);
 */
export class Recognizer {
  private constructor();
  /**
   * Loads the model. Rejects with ModelError for a file that is not a model, TypeError or RangeError for a wrong
   * option, Error for a file that cannot be read.
   */
  static load(options: RecognizerOptions): Promise<Recognizer>;
  /**
   * A recognizer with other options that shares the models of this one; close this one last. Rejects like
   * `load`.
   */
  withOptions(changes: Options): Promise<Recognizer>;
  /** Problems that make most words wrong, such as a missing language model, and skipped entries of lists. */
  readonly warnings: string[];
  /** Language of the model, a BCP 47 code such as "en" or "de-CH"; "" if it is unknown. */
  readonly language: string;
  /** A new stream, with the state of one source of audio. */
  stream(): Stream;
  /** Frees the models. Streams must have ended. */
  close(): Promise<void>;
}

/**
 * Takes audio and returns events. The text depends only on the audio, not on how it is split into calls. Calls are done
 * in order, even if they are not awaited. A call that throws, or rejects with any other error than StreamError, changes
 * nothing.
 */
export interface Stream {
  /**
   * Continues with `samples`, mono, of any length; resolves to the new events. sampleRate: a whole number of Hz in
   * [1000, 768000], default 16000; other rates are resampled. Samples that are not finite count as silence and cause an
   * error event. Floats far beyond 1, such as those in the range of int16, cause one error event: divide these by
   * 32768. Recognized speech that never exceeds 0.003 causes one, too, because many words are then
   * wrong. Throws TypeError, RangeError, and Error after `finish`. Rejects with StreamError if the encoder fails.
   */
  accept(samples: Float32Array | Int16Array, sampleRate?: number): Promise<StreamEvent[]>;
  /** Reports that `numSamples` of audio were lost: ends the utterance and adds a gap event. */
  gap(numSamples: number, sampleRate?: number): Promise<StreamEvent[]>;
  /** Ends the utterance here, regardless of the endpoint rules; its final follows. The audio continues. */
  endUtterance(): Promise<StreamEvent[]>;
  /** Ends the utterance here; `recognizer`, such as one of `Recognizer.withOptions`, recognizes later audio. */
  change(recognizer: Recognizer): Promise<StreamEvent[]>;
  /** Ends the audio: decodes the rest, ends the last utterance, and frees memory. A second call has no effect. */
  finish(): Promise<StreamEvent[]>;
  /** Frees the stream's memory without recognizing its last words. Not needed after `finish`. */
  close(): void;
}

/**
 * The encoder failed. The stream cannot be used anymore: every later call rejects for the same reason. If any other
 * network fails, such as the language model, an error event says so once, and the words are recognized without it.
 * `cause`: the network's error.
 */
export class StreamError extends Error {
  /** Earlier events, which the call would have resolved to; empty for later calls. */
  events: StreamEvent[];
}

/** A file that is not a usable model. */
export class ModelError extends Error {}
