"""Schedule steps as data, and their application to a fusion."""
