"""The models, one family a file. Sizes are arguments: tests build them small, the benchmark as they are used."""
