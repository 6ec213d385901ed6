"""What is on the wire of limits, pace and reserved shares."""
