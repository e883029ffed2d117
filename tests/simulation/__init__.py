"""Whole lives of clients and a broker under virtual time: each is a function of a seed, and each step is checked.

`.venv/bin/python -m tests.simulation SEED` lives one of them and shows its last steps.
"""
