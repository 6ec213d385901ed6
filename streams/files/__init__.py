"""Private files, locks, and SQLite files that do not change."""
