"""The matrix of authorization: each API under each set of ACLs, on Apache Kafka and on Barnabas, response by response.

All sets stand at once: each is for a client's address of its own (127.1.x.y), from which its requests are sent, so that
no ACL has to change between two of them. An administrator has an address of its own, too, and the brokers theirs.

Clients without a login are User:ANONYMOUS; some sets are for clients that log in.

requests    the requests of each API, which name topics, groups and so on that exist and that do not
grants      the sets of ACLs, made from the checks that the API's row in API_CHECKS has
matrix      both brokers, and the comparison
"""
