/** Reads a WAV file of 16-bit PCM, mono. Throws an Error that says what is wrong with another one. */
export function readWav(bytes: Uint8Array): { samples: Int16Array; sampleRate: number };
