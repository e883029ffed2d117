"""The follower side: fetching the records of partitions that other brokers lead.

`manager` gives each partition to one of the fetchers of its leader; `fetcher` is one of them: a state machine with one
request in flight over one connection, which appends what comes (`appending`), follows a log that has diverged back to
where it agrees with the leader's (`truncation`), and finds a new offset where the leader has not the one it fetched
(`offset_reset`). `session` is the client's half of incremental fetch sessions, `fetch_state` a partition's state,
`throttle` the follower's replication quota, `stats` the figures for metrics. `ports` says what it needs of the logs.

Called by replica_manager. It knows storage, node_client and waiting.
"""
