"""Case and punctuation of recognized words: training text, network, training, evaluation. Needs PyTorch."""
