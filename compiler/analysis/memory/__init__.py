"""Memory: what is allocated, in which order it lies, and how wide and how free of conflicts it is accessed."""
