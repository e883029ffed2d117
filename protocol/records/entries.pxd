# Makes setup.py compile entries.py: its objects are Python's, and the loop over them is C.
