"""Random sequences of requests, sent to Apache Kafka and to Barnabas side by side: both have to answer the same.

    make differential SEED=4711 MINUTES=60          hours by hand; every new difference is printed, shrunk
    python -m tests.conformance.differential --seed 4711 --only 123        sequence 123 of seed 4711 once more

A sequence is some dozens of steps, each one request in one version on one of a few connections. It is drawn from
`Random("seed/number")`, by the areas (logs, transactions, groups, consumer_groups, administration), which look at what
the answers so far have shown (world.py): so requests fit the state, or just miss it. Each sequence has its own
prefix for names of topics, groups and transactional ids, and many run side by side on one pair of brokers.

What a broker makes up (ids of topics, producers, members, fetch sessions) is known under a name that both brokers
share (names.py): requests are drawn and kept with these names, and each side gets them with its own values. So a step
can be sent again in a later run, and steps can be left out: that is how a difference is shrunk (shrinking.py).

Answers are compared field by field (answers.py lists what may differ between any two brokers, with reasons). What is
known to differ beside that is in exceptions.py, one entry for each, with a reason.

Apache Kafka does some things after its answer. The player waits for them before the next step (settling.py), so that no
mask is needed for them. Requests that wait for others (JoinGroup, SyncGroup, Fetch) are compared when they are
answered: both brokers have to answer them after the same step. On two of the connections requests are sent behind those
that wait, too: both brokers have to handle them in order.

A difference counts when it shows again in each of several full replays of the sequence under fresh names, and in none
of as many in which Kafka is compared with itself.
"""
