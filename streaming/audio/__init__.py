"""Audio sources: microphone and files."""
