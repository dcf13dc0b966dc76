"""Data, from recordings and transcripts to batches: manifests, features, augmentation, sampling."""
