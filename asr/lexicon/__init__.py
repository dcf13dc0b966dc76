"""Pronunciation dictionaries, and G2P for words outside of them. Runs without PyTorch."""

from asr.lexicon.lexicon import Lexicon, LexiconError, load_lexicon

__all__ = ["Lexicon", "LexiconError", "load_lexicon"]
