"""The loop that owns a partition, replays its log, decides its inputs and commits."""
