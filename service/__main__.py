"""`python -m service`: see `service.cli`."""

from service.cli.app import app

if __name__ == "__main__":
    app(prog_name="python -m service")
