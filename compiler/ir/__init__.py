"""The immutable graph: fusions over tensors, tensors over IterDomains. No architecture, no CUDA text."""
