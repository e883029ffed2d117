"""Measurements that a claim of speed has to come with: `python -m bench`."""
