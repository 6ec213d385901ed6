"""How long each test takes: recorded by `make test`, printed after it, and used for its order."""
