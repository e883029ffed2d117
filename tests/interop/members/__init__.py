"""Programs that each run many members of groups, so that a test can have dozens and kill some with a program.

Each reads commands, one a line:

    join  NAME TOPIC GROUP PROTOCOL [INSTANCE]      a consumer that reads records and commits them
    chain NAME FROM TO GROUP PROTOCOL ABORT_EVERY   a consumer that copies FROM to TO in transactions that include the
                                                    offsets; it aborts one in ABORT_EVERY (0: none)
    leave NAME                                      closes the consumer cleanly

PROTOCOL is eager, cooperative or consumer (KIP-848); INSTANCE makes a static member. Each writes a line for
each event, NAME behind the first word:

    assigned    NAME [PARTITION,...]     all partitions that it owns now
    got         NAME PARTITION FIRST-LAST   records that it received, by runs of offsets
    committed   NAME PARTITION NEXT      the broker accepted the commit
    uncommitted NAME REASON              a commit or a transaction that the broker rejected
    left        NAME
    failed      NAME REASON

confluent.py, aio.py, kafka_python.py are such programs, and ../java/Members.java and ../go/members/main.go.
`host.py` runs the programs for a test, `ledger.py` checks their lines.
"""
