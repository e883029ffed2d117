"""Tests of the benchmarks that measure nothing."""
