// The neural language model, on typed arrays.

import { NetworkFile } from "./network_file.js";

export class NeuralLm extends NetworkFile {
  static open(core, bytes, ort, sessionOptions) {
    return super.open(bytes, ort, sessionOptions, "the neural language model", core.NeuralLmMetadata);
  }

  // Takes the nodes of a tree, Int32Arrays of (numNodes,) each. Resolves to their log-probabilities, a Float32Array.
  async score({ pieces, parents, depths, ends }) {
    const inputs = [pieces, parents, depths, ends].map((data) => this.integers(data, [data.length]));
    const [logProbs] = await this.run(inputs);
    return logProbs.data.map((logProb) => Math.min(logProb, 0));
  }
}
