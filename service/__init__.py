"""The service: a REST API over the tuner, its database, its workers and its dashboard (docs/architecture.md)."""
