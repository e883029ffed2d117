"""Compares Barnabas with Apache Kafka: the same workloads and clients on one machine, in turns.

| module | what is in it |
| --- | --- |
| `workloads.py` | the rows, as declarations: who does what to which topic |
| `targets.py` | what the ratios are to be |
| `job.py`, `workers/` | what the clients do; a process for each, `python -m bench.side_by_side.workers` |
| `crew.py` | the clients of one measurement: started, let go together, heard |
| `contestants.py` | the brokers, their topics and what they hold |
| `rounds.py` | who is measured when, and again when somebody else used the machine |
| `lifecycle.py` | starts, restarts, kill -9, memory |
| `figures.py` | medians, percentiles, ratios |
| `report.py` | the sections of docs/performance.md |
| `command.py` | the options |
| `soak.py` | half an hour at half the rate |
"""
