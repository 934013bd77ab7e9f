"""How long a candidate should take, before it has run: a ranking, never shown as a measurement."""
