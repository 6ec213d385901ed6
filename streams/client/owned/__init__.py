"""What owners say of a dataset: its opening and end, what is changed, who may do what."""
