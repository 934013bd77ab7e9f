"""Which operators of a graph become one kernel: the passes that propose regions, one a file.

`propose` runs them in order. Nothing here knows a scheduler: the service judges what is proposed.
"""
