"""Helpers that the tests of several packages share: brokers as processes, ports, raw connections, seeds, skips."""
