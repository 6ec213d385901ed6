"""The same load through this project's worker and through programs of other systems."""
