"""`asr transcribe`: transcribes a corpus on all cores of one or many machines."""
