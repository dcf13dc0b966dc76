"""Word error rate against latency, and its measurement."""
