"""The `asr-stream` command: captions, subtitles and output files."""
