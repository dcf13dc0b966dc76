"""Export: one .onnx file that apps embed, checked against PyTorch before it is written."""
