"""The emulator held against a card: single-instruction kernels, random fusions, and open questions of the hardware."""
