"""What a lane computes by itself, from its own operands."""
