"""Pronunciations: what a phone head is trained on and searched with."""
