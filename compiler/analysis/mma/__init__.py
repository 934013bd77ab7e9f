"""Tensor cores: instructions, who holds what of their results, and how their operands lie in shared memory."""
