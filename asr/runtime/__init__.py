"""The ONNX model at run time: metadata, sessions, caches, search. No PyTorch."""
