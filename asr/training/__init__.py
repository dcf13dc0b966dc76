"""Training loop, optimization, checkpoints."""
