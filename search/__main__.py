"""`python -m search`: see `search.cli`."""

if __name__ == "__main__":
    import gc
    import os
    import sys
    import time

    began = time.monotonic()
    gc.disable()  # imports leave no cycles, and looking for some takes a tenth of their time
    try:  # the imports take a second or two, in which Ctrl-C is as much a way to stop as later
        if sys.argv[1:2] == ["tune"] and "--help" not in sys.argv:
            from search.measure import early
            from search.tuning.hands import compilers, drafters

            with early.one_thread_each(os.environ):
                gpus = early.gpus_of(sys.argv)
                for index in range(gpus):
                    early.begin(index)
                early.begin_drafters(drafters(compilers(gpus), gpus))
                import numpy  # noqa: F401 (so that its threads are as few)
        from search.cli.app import app

        gc.enable()
        app(prog_name="python -m search", obj=began)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
