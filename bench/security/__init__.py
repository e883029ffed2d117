"""Security beside Apache Kafka: TLS, handshakes, logins, ACLs and quotas, the same clients on both, in turns.

| module | what is in it |
| --- | --- |
| `contestants.py` | both brokers with a listener of each protocol, their users, ACLs and quotas |
| `rows.py` | what is measured |
| `command.py` | the options, the rounds and the section of docs/performance.md |

Clients are the workers of `bench.side_by_side`; those that log in over and over are in its `workers/logins.py`.
"""
