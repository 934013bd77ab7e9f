"""Whether a kernel is right: input sets and bounds, runs in the emulator, small bindings."""
