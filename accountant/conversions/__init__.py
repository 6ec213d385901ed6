"""Between the definitions of privacy; every result is rounded outward."""
