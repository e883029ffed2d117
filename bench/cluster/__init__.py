"""Compares a cluster of Barnabas brokers with the same cluster of Apache Kafka: `python -m bench cluster`.

Three brokers of one kind and a controller of Apache Kafka, twice, side by side on one machine. The clients are those of
`bench.side_by_side`, whose samples, medians and ratios are used too.

| module | what is in it |
| --- | --- |
| `clusters.py` | the two clusters: processes, topics, offsets |
| `measuring.py` | the clients of one measurement, and the processor time of each node meanwhile |
| `row.py` | what a row is, and how it is attempted |
| `loads.py` | rows of clients: produce, latency, processor time as leader and as follower |
| `catch_up.py` | a row: a new replica fetches half a gigabyte |
| `many.py` | a topic of 2,000 partitions, and a row: the memory of brokers that have a replica of each |
| `leaders.py` | a row: the leaders of 1,000 of these move after kill -9 |
| `rounds.py` | the order of measurements |
| `figures.py` | what is shown of each row, and the aims |
| `report.py` | the section of docs/performance.md |
| `command.py` | the options |
"""
