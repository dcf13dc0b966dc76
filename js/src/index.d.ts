/** A recognized word. Times in seconds since the start of the stream. */
export interface Word {
  word: string;
  start: number;
  end: number;
  /** In (0, 1): the probability that it is right. */
  confidence: number;
}

/**
 * An event of a stream.
 *
 * - partial: the current utterance as understood so far. The next partial or final replaces it; it may be empty.
 * - final: an utterance that has ended. It will not change, and it is empty only where nothing but spoken
 *   commands was said.
 * - gap: audio between `start` and `end` never arrived. The utterance before it was ended by a final.
 * - error: something is wrong with the audio; the stream goes on.
 */
export interface StreamEvent {
  type: "partial" | "final" | "gap" | "error";
  /** Words as they are shown, separated by spaces; of gap and error a sentence for people. */
  text: string;
  /** Seconds since the start of the stream; lost audio counts as time that passed. */
  start: number;
  end: number;
  /**
   * Those of `text`; one that stands for several spoken words, such as "9:30", has their times and their least
   * confidence. Empty for gap and error.
   */
  words: Word[];
  /** Of a partial and a final: the words as they are recognized. */
  raw?: string;
  rawWords?: Word[];
  /**
   * Of a partial: how many leading words will hardly change in a later one. (A second pass encodes the whole utterance,
   * and its final may differ all the same.)
   */
  numStable?: number;
  /** Of a final: so many finals before it, that are not taken back already, are ("scratch that"). */
  numTakenBack?: number;
  /** Of a final: what ended the utterance. A gap is an end of audio. */
  endpoint?: "silence_after_speech" | "silence_without_speech" | "max_utterance" | "end_of_audio";
  /** Of a final, with the option maxAlternatives: other sentences that it may have been, the likeliest first. */
  alternatives?: Alternative[];
}

export interface Alternative {
  /** Words as they are shown, without punctuation, separated by spaces. */
  text: string;
  /** The probability that this is what was said. */
  confidence: number;
  words: Word[];
}

/** The part of ONNX Runtime's JavaScript interface that is used: onnxruntime-web and onnxruntime-node have it. */
export interface Runtime {
  InferenceSession: { create(model: Uint8Array, options?: any): Promise<any> };
  Tensor: new (type: any, data: any, dims: readonly number[]) => any;
}

/** Options of recognition. */
export interface Options {
  // <options> written by python -m asr.options --write
  /** audio per step; text appears once per chunk; a multiple of 40 in [40, 5120]; default: the model file's, usually
   * 640 */
  chunkMs?: number;
  /** audio before the chunk that the encoder attends to; a multiple of 40 in [0, 20480]; default: the model file's,
   * usually 2560 */
  leftContextMs?: number;
  /** greedy, beam (CTC prefix beam search), or rescore (beam; at the endpoint the attention decoder picks among its
   * hypotheses); default: rescore */
  search?: "greedy" | "beam" | "rescore";
  /** encode each utterance again, 5 s at a time and in three views, and take its final from that; default: true */
  secondPass?: boolean;
  /** hypotheses kept by the beam search; a whole number in [1, 1024]; default: 256 */
  beamSize?: number;
  /** hypotheses that the attention decoder scores, which a final waits for; a whole number in [1, 1024]; default:
   * 4 */
  numRescored?: number;
  /** how words are shown: formatted (numbers in digits, case and punctuation; English only) or plain; default:
   * formatted */
  text?: "formatted" | "plain";
  /** nats below the best hypothesis at which another one is dropped; in (0, 100]; default: 11 */
  beamThreshold?: number;
  /** weight of the first pass in rescoring; the decoder has the rest; in [0, 1]; default: the model file's, usually
   * 0.7 */
  rescoreCtcWeight?: number;
  /** weight of the language model's log-probabilities; in [0, 10]; default: the model file's, usually 0.9 */
  lmWeight?: number;
  /** added for each word, with a language model; in [-20, 20]; default: the model file's, usually -2.4 */
  lmWordBonus?: number;
  /** subtracted for each word outside the vocabulary of the language model; in [0, 100]; default: the model file's,
   * usually 8 */
  lmOovPenalty?: number;
  /** weight of the bigram log-probabilities of letters or phones, which are subtracted; in [0, 2]; default: the model
   * file's, usually 0.7 */
  lmPriorWeight?: number;
  /** bonus in nats for each letter of a hotword; in (0, 20]; default: 0.75 */
  hotwordBoost?: number;
  /** cost in nats for each letter that becomes [unk], where phrases are given; in (0, 100]; default: 1.5 */
  unknownCost?: number;
  /** longest silence before an utterance ends; shorter if the sentence sounds complete; inf: silence never ends one;
   * in (0, inf]; default: 2 */
  silenceAfterSpeechS?: number;
  /** shortest such silence; set both equal for a fixed timeout; in (0, inf]; default: 0.5 */
  minSilenceAfterSpeechS?: number;
  /** silence before an utterance without any words ends; in (0, inf]; default: 5 */
  silenceWithoutSpeechS?: number;
  /** a longer utterance ends at its next pause, or between two words; in (0, 120]; default: 20 */
  maxUtteranceS?: number;
  /** other sentences in a final that the utterance may have been, the likeliest first; a whole number in [0, 20];
   * default: 0 */
  maxAlternatives?: number;
  /** obey spoken commands of dictation: comma, new line, all caps, scratch that, ...; default: false */
  commands?: boolean;
  /** of formatted English text: american (color), british (colour), or mixed (as recognized); default: american */
  spelling?: "american" | "british" | "mixed";
  // </options>
}

/** The options, and the models and lists that go with them. */
export interface RecognizerOptions extends Options {
  /** An exported `.onnx` file: its URL, in Node also its path, or its bytes. */
  model: string | URL | Uint8Array | ArrayBuffer;
  /** Language model of the beam searches, a file from `asr lm`; null (the default) for none. */
  lm?: string | URL | Uint8Array | ArrayBuffer | null;
  /** Neural language model that rescores finals, a file of `asr export`, next to an lm with pronunciations; null (the
   * default) for none. */
  neuralLm?: string | URL | Uint8Array | ArrayBuffer | null;
  /** Model for case and punctuation, and for endpoints, a file of `asr export`; null (the default) for none. */
  punctuation?: string | URL | Uint8Array | ArrayBuffer | null;
  /**
   * Words and phrases that are expected, for the beam searches, such as ["Abbey Road", "Leighton:2"]: each of its
   * letters counts `hotwordBoost` nats, or the number after the colon. Behind an equals sign may be what it sounds
   * like: "Nguyen = win, new yen". Capitals, digits and signs are written as they are given. An entry that cannot be
   * used is left out; `Recognizer.warnings` names it.
   */
  hotwords?: string[];
  /**
   * A grammar that replaces free speech, such as voice commands. Only its phrases are recognized, one after the
   * other, and "[unk]" for other speech; no language model and no decoder takes part.
   */
  phrases?: string[];
  /** Words and phrases that are not to be shown: their letters become stars. */
  mask?: string[];
  /** What is written in place of words and phrases, applied last, such as ["my address -> 12 Main Street"]. */
  replace?: string[];
  /** Spoken commands of one's own, such as ["next item -> new line"]; they turn `commands` on. */
  commandList?: string[];
  /**
   * The ONNX Runtime: `import * as ort from ...`. By default "onnxruntime-web/wasm" is imported, which a page without
   * a bundler cannot find by that name, and run in one thread.
   */
  ort?: Runtime;
  /** Handed to `ort.InferenceSession.create`, e.g. {executionProviders: ["webgpu"]}. */
  sessionOptions?: Record<string, unknown>;
}

/**
 * A model and how to run it. Any number of streams share it.
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
   * A recognizer with other options and lists, which shares the models of this one; this one is closed last. Rejects as
   * `load` does.
   */
  withOptions(
    changes: Options & Pick<RecognizerOptions, "hotwords" | "phrases" | "mask" | "replace" | "commandList">,
  ): Promise<Recognizer>;
  /** Sentences about entries of lists that are left out; each names its entry. */
  readonly warnings: string[];
  /** The language that the model writes, in ISO 639-1; "" where it is not known. */
  readonly language: string;
  /** A new stream: it holds all state of one source of audio. */
  stream(): Stream;
  /** Frees model and language model. Its streams must have ended. */
  close(): Promise<void>;
}

/**
 * Takes audio, gives events. The text depends on the audio only, not on how it was cut into calls. Calls are done in
 * turn, whether or not the one before has been awaited.
 */
export interface Stream {
  /**
   * Continues with `samples`, mono, of any length; resolves to what happened. sampleRate: whole Hz in [1000, 768000],
   * default 16000; anything else is resampled. Samples that are not finite count as silence and cause an error
   * event. Throws TypeError, RangeError, and Error after `finish`. Rejects with StreamError when the network cannot be
   * run.
   */
  accept(samples: Float32Array | Int16Array, sampleRate?: number): Promise<StreamEvent[]>;
  /** Reports that `numSamples` of audio were lost here: ends the utterance, reports a gap. */
  gap(numSamples: number, sampleRate?: number): Promise<StreamEvent[]>;
  /** Ends the utterance here, whatever the endpoint rules say; its final follows, and the audio goes on. */
  endUtterance(): Promise<StreamEvent[]>;
  /** The same, and what follows is recognized by this recognizer, such as one of `Recognizer.withOptions`. */
  change(recognizer: Recognizer): Promise<StreamEvent[]>;
  /** Reports the end: the rest is decoded, the last utterance reported, and memory freed. Twice is once. */
  finish(): Promise<StreamEvent[]>;
  /** Frees a stream's memory without its last words. Not needed after `finish`. */
  close(): void;
}

/**
 * The network could not be run. The stream cannot be used any more: every later call rejects with the same reason.
 * `cause`: the network's error.
 */
export class StreamError extends Error {
  /** The events from before the failure, which the call would have resolved to; empty for later calls. */
  events: StreamEvent[];
}

/** A file that is not a usable model. */
export class ModelError extends Error {}
