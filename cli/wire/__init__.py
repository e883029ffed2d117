"""`barnabas wire`: shows how a message is laid out, and explains bytes that were sent.

commands.py     the two commands, their options and exit codes
names.py        messages and APIs by name, with near names for a wrong one
layouts.py      the layout of a message in one version, as text and as JSON
tree.py         what was read, and what is wrong
walking.py      bytes to a tree of fields with their offsets, and what is wrong in them
batches.py      the record batches inside Produce and Fetch
frames.py       one request or response: header, body, trailing bytes
inputs.py       hex, base64 and raw bytes; where one frame ends and the next begins
captures.py     pcap and pcapng files to packets
tcp.py          packets to the bytes of each connection, in order
exchanges.py    the frames of a connection, each response with the API and version of its request
printing.py     frames as a tree and as JSON

The layouts are those of `protocol.reference`; nothing here declares a field again.
"""
