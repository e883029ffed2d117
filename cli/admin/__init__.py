"""Administration over the wire protocol: `barnabas topics`, `configs`, `groups` ..., for Barnabas and Apache Kafka.

`connection` is one socket, `client` finds the right broker and tries again, `calls/` asks and changes one kind of thing
each and knows no command line, `commands/` are the commands. Nothing of this is imported by `serve`.
"""
