"""What the service does when it is asked: decisions, and no HTTP. Routes and dashboard call these."""
