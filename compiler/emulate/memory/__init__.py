"""Memory of a grid: address spaces, regions, what has been written."""
