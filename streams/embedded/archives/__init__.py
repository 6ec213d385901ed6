"""The beginning of a log in an archive, and the snapshot that stands for it."""
