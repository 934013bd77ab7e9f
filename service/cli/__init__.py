"""The commands of the service: one module each."""
