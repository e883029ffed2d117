"""Runs Apache Kafka's own integration tests, from its test jars, against Barnabas processes.

Two of Kafka's classes, through which its tests start clusters, have stand-ins of the same name under `java/`, before
Kafka's on the class path: `RaftClusterInvocationContext` (tests with `@ClusterTest`) and `QuorumTestHarness` (tests
that extend it, as those of `IntegrationTestHarness` do). What tests ask of the objects of a JVM broker is asked of the
process, by an administrator on a listener of its own; what another process cannot answer is listed in suites.toml.
"""
