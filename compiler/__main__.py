"""`python -m compiler`: see `compiler.cli`."""

if __name__ == "__main__":
    try:  # the imports take a second or two, in which Ctrl-C is as much a way to stop as later
        from compiler.cli import app

        app(prog_name="python -m compiler")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
