"""Alignment of a known text to its recording: the times of its words and phones."""

from asr.streaming.alignment.aligner import AlignedWord, Alignment, Phone, align

__all__ = ["AlignedWord", "Alignment", "Phone", "align"]
