"""Products of warpgroups, asynchronous (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate")."""
