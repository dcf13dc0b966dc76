"""The protocols of `asr-stream serve`, one module each."""
