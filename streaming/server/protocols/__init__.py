"""The protocols of `asr-stream serve`, a module each."""
