"""PTX run on the CPU, a NumPy lane per thread, under a sanitizer.

The witness of the compiler: it reads the PTX that NVRTC made of the emitted CUDA, never our own intermediate forms.

    ptx/      text to instructions: lexer, parser, control flow
    numeric/  PTX arithmetic on arrays of lanes: rounding modes, conversions, packed types
    memory/   address spaces, what is initialised, tensors and guard zones
    order/    happens-before: vector clocks, the log of accesses, races
    features/ a folder a feature: its instructions, bound to operands before the run, and the hardware they share
"""
