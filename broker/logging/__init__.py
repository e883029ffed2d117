"""Log lines: text on a terminal, JSON for machines, and rate limits for lines that repeat.

Imports nothing else of the broker. The loggers as a resource that can be altered (KIP-412) are controller.loggers.
"""
