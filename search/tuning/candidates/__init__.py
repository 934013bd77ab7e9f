"""Which candidates are tried, and in which order."""
