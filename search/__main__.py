"""`python -m search`: see `search.cli`."""

if __name__ == "__main__":
    import sys
    import time

    began = time.monotonic()
    if sys.argv[1:2] == ["tune"] and "--help" not in sys.argv:
        from search.measure import early
        from search.tuning.hands import compilers, drafters

        gpus = early.gpus_of(sys.argv)
        for index in range(gpus):
            early.begin(index)
        early.begin_drafters(drafters(compilers(gpus), gpus))
    try:  # the imports take a second or two, in which Ctrl-C is as much a way to stop as later
        from search.cli.app import app

        app(prog_name="python -m search", obj=began)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
