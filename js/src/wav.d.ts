/** Reads a WAV file of 16-bit PCM, mono. Throws an Error with the defect of any other file. */
export function readWav(bytes: Uint8Array): { samples: Int16Array; sampleRate: number };
