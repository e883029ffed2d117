"""Coordinators: state machines whose state is the replay of a partition's records."""
