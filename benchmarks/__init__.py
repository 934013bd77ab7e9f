"""Performance measurements, and the suite they run over."""
