"""What decisions say that a command writes: a seal, an accepted loss, another key."""
