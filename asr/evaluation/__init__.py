"""Word error rate against latency, and what measures it."""
