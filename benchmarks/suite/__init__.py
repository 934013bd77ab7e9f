"""The public suite: cases as data, and each one as a fusion file."""
