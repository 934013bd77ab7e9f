"""The commands `tune`, `space`, `trace`, `prepare` and `measure`."""
