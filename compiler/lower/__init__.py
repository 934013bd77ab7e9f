"""Scheduled fusion -> kernel IR. Knows no scheduler: it reads the scheduled fusion alone."""
