"""`asr train-gpu`: training for some minutes on one device that holds all recordings and augments them itself."""
