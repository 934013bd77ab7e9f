"""Durable jobs: how the service hands a tuning to a worker, and what the worker does with it."""
