"""Waiting without blocking the event loop: purgatory, timers, threads for work that blocks, calls from other threads.

Knows nothing else of the broker.
"""
