"""The REST API: a route parses, calls one operation and returns."""
