// The punctuation network, on typed arrays.

import { NetworkFile } from "./network_file.js";

export class Punctuation extends NetworkFile {
  static open(core, bytes, ort, sessionOptions) {
    return super.open(bytes, ort, sessionOptions, "the punctuation model", core.PunctuationMetadata);
  }

  // units: Int32Array of (numUnits, numWordFeatures); pauses: Int32Array of (numUnits,). Resolves to probabilities,
  // Float32Arrays of (numUnits, marks) and (numUnits, cases).
  async answer(units, pauses) {
    const numUnits = pauses.length;
    const outputs = await this.run([
      this.integers(units, [1, numUnits, units.length / numUnits]),
      this.integers(pauses, [1, numUnits]),
      this.integers([numUnits], [1]),
    ]);
    return outputs.map(({ data }) => data);
  }
}
