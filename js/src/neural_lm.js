// The neural language model, on typed arrays.

import { NetworkFile } from "./network_file.js";

export class NeuralLm extends NetworkFile {
  static open(core, bytes, ort, sessionOptions) {
    const { neuralLmInputs: inputs, neuralLmOutputs: outputs } = core.contract();
    return super.open(bytes, ort, sessionOptions, "the neural language model", core.NeuralLmMetadata, inputs, outputs);
  }

  // Takes the nodes of a tree, Int32Arrays of (numNodes,) each. Resolves to their log-probabilities, a Float32Array.
  async score({ pieces, parents, depths, ends }) {
    const [logProbs] = await this.run([pieces, parents, depths, ends].map((data) => [data, [data.length]]));
    return logProbs.map((logProb) => Math.min(logProb, 0));
  }
}
