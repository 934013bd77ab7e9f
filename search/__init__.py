"""What is worth trying next: spaces of schedules, samplers, measurement and the tuning loop."""
