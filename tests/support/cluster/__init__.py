"""A cluster of several processes on this machine, JVM nodes and Barnabas nodes mixed, for tests of replication.

`rig.py` is the cluster: it starts, stops, kills, freezes and swaps nodes. `network.py` stands between the nodes and
cuts, stalls or delays what they send each other. `load.py` drives stock clients, which write a `history.py`;
`checker.py` finds what may not be in one. `replicas.py` compares the log directories of the replicas of a topic.

The parts have tests of their own beside them, which need no JVM. `tests/conformance/cluster` has the scenarios.
"""
