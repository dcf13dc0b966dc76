// The punctuation network, on typed arrays.

import { NetworkFile } from "./network_file.js";

export class Punctuation extends NetworkFile {
  static open(core, bytes, ort, sessionOptions) {
    const { punctuationInputs: inputs, punctuationOutputs: outputs } = core.contract();
    const name = "the punctuation model";
    return super.open(bytes, ort, sessionOptions, name, core.PunctuationMetadata, inputs, outputs);
  }

  // units: Int32Array of (numUnits, numWordFeatures); pauses: Int32Array of (numUnits,). Resolves to probabilities,
  // Float32Arrays of (numUnits, marks) and (numUnits, cases).
  answer(units, pauses) {
    const numUnits = pauses.length;
    return this.run([
      [units, [1, numUnits, units.length / numUnits]], [pauses, [1, numUnits]], [[numUnits], [1]],
    ]);
  }
}
