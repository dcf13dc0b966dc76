"""N-gram language models of the beam search: estimation and the packed file. No PyTorch."""
