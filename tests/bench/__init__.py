"""The benchmarks themselves: what can be tested of them without measuring anything."""
