// A file to caption: decodes its audio and passes it to the engine no faster than it is recognized.

const SAMPLE_RATE = 16000;
const PIECE = SAMPLE_RATE / 2; // samples
const AHEAD_S = 10; // maximum audio in the engine that is not recognized yet
const POLL_MS = 20;

// Resolves to {sampleRate, samples: Float32Array in ±1}, or {error: a sentence}. file: a File, audio or video.
export async function decode(file) {
  let buffer;
  try {
    // A context with this rate resamples while decoding.
    buffer = await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(await file.arrayBuffer());
  } catch {
    const why = "it is not audio or video, or this browser does not know its format";
    return { error: `${file.name} cannot be read: ${why}.` };
  }
  const samples = buffer.getChannelData(0);
  for (let channel = 1; channel < buffer.numberOfChannels; channel++) {
    buffer.getChannelData(channel).forEach((sample, i) => (samples[i] += sample));
  }
  if (buffer.numberOfChannels > 1) samples.forEach((sample, i) => (samples[i] = sample / buffer.numberOfChannels));
  return { sampleRate: SAMPLE_RATE, samples };
}

// Resolves when all audio has been passed to the engine, or `stopped()` is true. progress(share): called repeatedly.
export async function feed(samples, engine, stopped, progress) {
  for (let begin = 0; begin < samples.length && !stopped(); begin += PIECE) {
    engine.audio(samples.slice(begin, begin + PIECE), performance.now());
    progress(Math.min(1, (begin + PIECE) / samples.length));
    while (engine.behindS > AHEAD_S && !stopped()) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
