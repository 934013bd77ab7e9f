"""The console script `fusetune`: what a service and the store have, from a shell (docs/cli.md)."""
