"""What each page shows, read in one transaction; routes and templates decide nothing of it."""
