"""Claims from the objects of privacy engines: one adapter a file; import the adapter's file.

Only the adapter that is used imports its engine.
"""
