"""Claims read off the objects of engines: an adapter a file, imported by the file's name.

Nothing here imports an engine before its own adapter is used.
"""
