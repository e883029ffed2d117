"""Benchmarks, which back every claim of speed: `python -m bench`."""
