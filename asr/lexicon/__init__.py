"""Pronunciation dictionaries, and pronunciations of words that no dictionary has. Runs without PyTorch."""

from asr.lexicon.lexicon import Lexicon, LexiconError, load_lexicon

__all__ = ["Lexicon", "LexiconError", "load_lexicon"]
