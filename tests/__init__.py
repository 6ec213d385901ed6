"""The tests; a package, since an engine installs one of this name."""
