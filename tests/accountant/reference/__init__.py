"""Reference implementations of the bounds in tests/vectors, one module a topic; see bounds.py."""
