"""Sockets: listeners, connections, and what bounds them."""
