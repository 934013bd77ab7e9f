"""The dashboard: pages over the service's tables. All they need comes from here; nothing is fetched from elsewhere."""
