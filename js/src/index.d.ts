/** A recognized word. Times in seconds since the start of the stream. */
export interface Word {
  word: string;
  start: number;
  end: number;
  /** In (0, 1): the probability that it is right. */
  confidence: number;
}

/**
 * What happened in a stream.
 *
 * - partial: the current utterance as understood so far. The next partial or final replaces it; it may be empty.
 * - final: an utterance that has ended. It will not change, and it is never empty.
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
  /** Of a final: what ended the utterance. A gap is an end of audio. */
  endpoint?: "silence_after_speech" | "silence_without_speech" | "max_utterance" | "end_of_audio";
}

/** What a language model counts beside the CTC log-probability; the defaults are tuned for the bundled models. */
export interface LmWeights {
  /** Of the log-probability of the words: 0 to 10, default 0.9. */
  weight?: number;
  /** Added for each word: -20 to 20, default -2.4. */
  wordBonus?: number;
  /** Taken off for each word outside the vocabulary: 0 to 100, default 8. */
  oovPenalty?: number;
  /** Of the letters' own log-probability, by a bigram, taken off: 0 to 2, default 0.7. */
  priorWeight?: number;
}

/** The part of ONNX Runtime's JavaScript interface that is used: onnxruntime-web and onnxruntime-node have it. */
export interface Runtime {
  InferenceSession: { create(model: Uint8Array, options?: any): Promise<any> };
  Tensor: new (type: any, data: any, dims: readonly number[]) => any;
}

export interface RecognizerOptions {
  /** An exported `.onnx` file: its URL, in Node also its path, or its bytes. */
  model: string | URL | Uint8Array | ArrayBuffer;
  /** Language model of the beam searches, a file from `asr lm`; null (the default) for none. */
  lm?: string | URL | Uint8Array | ArrayBuffer | null;
  lmWeights?: LmWeights;
  /** Model for case and punctuation, and for endpoints, a file of `asr export`; null (the default) for none. */
  punctuation?: string | URL | Uint8Array | ArrayBuffer | null;
  /**
   * Audio per step, a multiple of 40 in [40, 5120], default that of the model file (640 as a rule); text appears once
   * per chunk.
   */
  chunkMs?: number;
  /**
   * The left context of the encoder, a multiple of 40 in [0, 20480], default that of the model file
   * (2560 as a rule).
   */
  leftContextMs?: number;
  /**
   * "greedy" | "beam" (CTC prefix beam search) | "rescore" (the default: beam; at the endpoint the attention decoder
   * picks among the hypotheses of the beam).
   */
  search?: "greedy" | "beam" | "rescore";
  /**
   * Encode an utterance that has ended again, with full context and in three views, and take its final from that (the
   * default), which is then at least as good as offline recognition. false takes it from the chunks.
   */
  secondPass?: boolean;
  /** Hypotheses kept, in [1, 1024], default 256. */
  beamSize?: number;
  /** An utterance ends after at most so many seconds of silence, default 2: how many depends on the words. */
  silenceAfterSpeechS?: number;
  /** And after at least so many, default 0.5. */
  minSilenceAfterSpeechS?: number;
  /** And after so many without speech, default 5. */
  silenceWithoutSpeechS?: number;
  /** And is ended, between two words, when it is so long, in (0, 120], default 20. */
  maxUtteranceS?: number;
  /**
   * Words and phrases that are expected, for the beam searches, such as ["Abbey Road", "Leighton:2"]: each of its
   * letters counts `hotwordBoost` nats, or what is given behind the colon.
   */
  hotwords?: string[];
  /** In (0, 20], default 0.75. */
  hotwordBoost?: number;
  /**
   * A grammar in place of free speech, such as voice commands. Only its phrases are recognized, one after the
   * other, and "[unk]" for what is none; no language model and no decoder takes part.
   */
  phrases?: string[];
  /** What text costs as "[unk]", in nats a letter: the higher, the rarer it is. In (0, 100], default 1.5. */
  unknownCost?: number;
  /**
   * "formatted" (the default): numbers in digits and, with a model for them, case and punctuation, of English words; or
   * "plain": words alone, of English models in small letters.
   */
  text?: "formatted" | "plain";
  /** Words and phrases that are not to be shown: their letters become stars. */
  mask?: string[];
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
   * Loads the model. Rejects with ModelError for a file that is none, TypeError or RangeError for an option that
   * is amiss, Error for what cannot be read.
   */
  static load(options: RecognizerOptions): Promise<Recognizer>;
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
  /** What happened before the failure: what the call would have resolved to. Of later calls empty. */
  events: StreamEvent[];
}

/** A file that is not a usable model. */
export class ModelError extends Error {}
