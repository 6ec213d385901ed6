"""Sign-in on the command line: the flows, and the stored login that clients use afterwards."""
