"""How long a verdict on an explicit schedule takes."""
