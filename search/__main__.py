"""`python -m search`: see `search.cli`."""

from search.cli.app import app

if __name__ == "__main__":
    app(prog_name="python -m search")
