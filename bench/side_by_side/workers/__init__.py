"""What clients do. A worker is a generator: it connects, yields, does what is measured, and returns its `Outcome`."""
