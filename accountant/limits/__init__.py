"""The levels at which a request is charged beside its dataset: limits, pace, reserved shares."""
