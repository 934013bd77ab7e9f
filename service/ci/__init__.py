"""`python -m service ci`: a folder of fusions held against a lock file, for a CI job (docs/containers.md)."""
