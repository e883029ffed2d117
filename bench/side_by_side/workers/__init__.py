"""The clients. A worker is a generator: it connects, yields, does the measured work, and returns its `Outcome`."""
