"""Games and adversaries that test the guarantees."""
