"""The neural language model: a causal Transformer over word pieces that scores the paths of a lattice."""
