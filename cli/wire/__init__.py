"""`barnabas wire`: shows the layout of a message, and explains the bytes of requests and responses.

commands.py     the two commands, their options and exit codes
layouts.py      messages and APIs by name, and the layout of a message in one version, as text and as JSON
walking.py      bytes to a tree of fields with their offsets, and the bytes that are wrong; record batches
frames.py       one request or response: header, body, trailing bytes
inputs.py       hex, base64 and raw bytes, split into frames
captures.py     pcap and pcapng files to packets
tcp.py          packets to the bytes of each connection, in order
exchanges.py    the frames of a connection, each response with the API and version of its request
printing.py     frames as a tree and as JSON

The layouts are those of `protocol.reference`; no field is declared here again.
"""
