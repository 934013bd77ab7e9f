"""`python -m fusetune`: the console script, where it is not on the path."""

from fusetune.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
