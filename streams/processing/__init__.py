"""The loop that owns a partition, refolds it, decides and commits."""
