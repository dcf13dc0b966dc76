"""`asr transcribe`: the recordings of a corpus become text, on all cores of one machine or of many."""
