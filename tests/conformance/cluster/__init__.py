"""Scenarios of a cluster in which JVM and Barnabas brokers replicate the same partitions (tests/support/cluster).

A scenario takes the fixture `rig` and runs once for each layout: "jbb" is a cluster of a JVM broker and two of
Barnabas, beside a JVM controller. The layouts are those of BARNABAS_CLUSTER=jj,jbb,3*jbb@4.1 (see `layouts.py`).
One cluster serves all scenarios of a layout; after each one it is put right, or replaced where that fails.

Scenarios marked `cluster` run in `make cluster` only; the few others in `make conformance` and `.ci/run` too.
"""
