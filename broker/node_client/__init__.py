"""Connections of this node to other nodes of its cluster: brokers and controllers.

Coordinators, fetchers, the metadata observer and the controller channel send their requests through a NodeChannel
(`channel.py`); tests and simulations put a fake behind it. `client.py` is the real one, over a socket of the event
loop; `exchange.py` has what it says on a connection, without sockets. May call waiting and the rooms below it.
"""
