"""Simulations of clients and a broker under virtual time: each is a function of its seed, and each step is checked.

`.venv/bin/python -m tests.simulation SEED` runs one of them and shows its last steps.
"""
