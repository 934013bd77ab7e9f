"""The commands `tune`, `space`, `prepare` and `measure`."""
