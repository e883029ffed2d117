"""Tests of the benchmark of a cluster that start none."""
