"""How quickly the service answers what its cache has, with much stored and kernels being published meanwhile."""
