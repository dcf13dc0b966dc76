"""The ONNX model as apps run it: metadata, sessions, caches, search. No PyTorch."""
