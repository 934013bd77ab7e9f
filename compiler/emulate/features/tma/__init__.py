"""Bulk copies through tensor maps."""
