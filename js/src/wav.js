// WAV files of 16-bit PCM.

const PCM = 1, EXTENSIBLE = 0xfffe;

// Returns {samples: Int16Array, sampleRate} of a mono file, given as a Uint8Array. Throws an Error with the defect.
export function readWav(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const name = (at) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 12 || name(0) !== "RIFF" || name(8) !== "WAVE") throw new Error("it is not a WAV file");
  let format;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const kind = name(at), size = view.getUint32(at + 4, true), begin = at + 8;
    if (size > bytes.length - begin) {
      throw new Error(`it is cut short: ${bytes.length - begin} bytes are left of the ${size} in its header`);
    }
    if (kind === "fmt " && size >= 16) format = readFormat(view, begin, size);
    if (kind === "data") {
      if (!format) throw new Error("it is damaged: it has no format chunk before its samples");
      if (size < 2) throw new Error("it holds no audio");
      const samples = new Int16Array(Math.floor(size / 2));
      for (let i = 0; i < samples.length; ++i) samples[i] = view.getInt16(begin + 2 * i, true);
      return { samples, sampleRate: format.sampleRate };
    }
    at = begin + size + (size % 2);
  }
  throw new Error("it holds no audio");
}

function readFormat(view, at, size) {
  const kind = view.getUint16(at, true), numChannels = view.getUint16(at + 2, true);
  const coding = kind === EXTENSIBLE && size >= 40 ? view.getUint16(at + 24, true) : kind;
  const sampleRate = view.getUint32(at + 4, true), numBits = view.getUint16(at + 14, true);
  if (coding !== PCM || numBits !== 16) {
    throw new Error(`it has ${numBits} bits of coding ${coding}; expected 16-bit PCM: convert it, e.g. with ` +
      "ffmpeg -i FILE -ac 1 -ar 16000 -c:a pcm_s16le NEW.wav");
  }
  if (numChannels !== 1) {
    throw new Error(`it has ${numChannels} channels; expected one: convert it, e.g. with ffmpeg -i FILE -ac 1 NEW.wav`);
  }
  return { sampleRate };
}
