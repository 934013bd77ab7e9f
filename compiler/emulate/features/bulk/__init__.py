"""Bulk copies without a tensor map, and stores that signal an mbarrier."""
