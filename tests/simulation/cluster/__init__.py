"""Several brokers in virtual time, against a model of the controller: replication lived through, fault by fault.

Each broker has real logs (LogManager over a disk in memory that forgets what was not synced), the real fetchers and
the real ReplicaManager and ReplicaReader (`member_run`); `partition` is a second opinion on the rules of leader and
follower, with which a scenario runs as well. `controller` has the rules of Kafka's controller, `network` loses, delays,
cuts and stalls. `scenario` draws a cluster and its troubles from a seed, `checks` holds the invariants after every
step, and `mutations` breaks one rule after the other.
"""
