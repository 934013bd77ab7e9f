"""The loop by stage: candidates, builds, trials, leaders, and what a tuning leaves."""
