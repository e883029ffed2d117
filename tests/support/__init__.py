"""Processes and sockets that the tests of several packages share."""
