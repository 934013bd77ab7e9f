"""What a schedule means on the hardware: pure functions over domains and addresses, read by legality and lowering."""
