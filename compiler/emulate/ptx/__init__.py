"""PTX text to instructions and their control flow."""
