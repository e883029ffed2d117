"""Committed offsets of all kinds of groups, and of transactions that are not decided yet."""
