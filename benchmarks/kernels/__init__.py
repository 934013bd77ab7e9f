"""Times tuned kernels beside what a torch user would otherwise run."""
