"""The network in PyTorch: encoder, decoder, their losses and the step function."""
