"""`python -m compiler`: see `compiler.cli`."""

from compiler.cli import app

if __name__ == "__main__":
    app(prog_name="python -m compiler")
