"""Random sequences of requests, sent to Apache Kafka and to Barnabas side by side: the responses must be equal.

    make differential SEED=4711 MINUTES=60          hours by hand; every new difference is shrunk and printed
    python -m tests.conformance.differential --seed 4711 --only 123        repeats sequence 123 of seed 4711

A sequence has some dozens of steps; each is one request in one version on one of a few connections. The areas (logs,
transactions, groups, consumer_groups, administration) draw it from `Random("seed/number")` and from the state that the
responses so far have shown (world.py): so requests fit the state, or just miss it. Each sequence has its own prefix for
names of topics, groups and transactional ids, and many run side by side on one pair of brokers.

Values that a broker generates (ids of topics, producers, members, fetch sessions) get a name that both brokers share
(names.py): steps contain these names, and each side receives its own values. So a later run can repeat a step, and
steps can be left out to shrink a difference (shrinking.py).

Responses are compared field by field (answers.py lists what may differ between any two brokers, with reasons).
exceptions.py has an entry with a reason for each other known difference.

Apache Kafka completes some changes after its response. The player waits for them before the next step (settling.py), so
that no field needs to be masked. Requests that wait for others (JoinGroup, SyncGroup, Fetch) are compared when they
complete: both brokers must answer them after the same step. On two of the connections more requests follow those that
wait: both brokers must handle them in order.

A difference counts when it shows again in each of several full replays of the sequence under fresh names, and in none
of as many in which Kafka is compared with itself.
"""
