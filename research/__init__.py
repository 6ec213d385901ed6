"""Bounds, attacks and experiments of the papers, which nothing installed imports.

`comparators` bound what is fixed in advance, `games` attack the guarantees, `experiment` runs the
accuracy-first mechanisms, and `figures` draws the pictures of the documentation.
"""
