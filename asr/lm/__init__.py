"""N-gram language models: estimation and the packed file. No PyTorch."""
