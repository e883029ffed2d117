"""Programs that each run many members of groups: a test can have dozens of members, and kill some with their program.

Each reads a line for each thing to do:

    join  NAME TOPIC GROUP PROTOCOL [INSTANCE]      a consumer that reads, and commits what it has read
    chain NAME FROM TO GROUP PROTOCOL ABORT_EVERY   a consumer that copies FROM to TO, by transactions with the offsets
                                                    in them, of which it aborts every so many (0: none)
    leave NAME                                      closes it in order

PROTOCOL is eager, cooperative or consumer (KIP-848); INSTANCE makes a static member. And each writes a line for
whatever happens, NAME behind the first word:

    assigned    NAME [PARTITION,...]     all that it owns now
    got         NAME PARTITION FIRST-LAST   records that it was handed, by runs of offsets
    committed   NAME PARTITION NEXT      the broker has taken the commit
    uncommitted NAME REASON              a commit or a transaction that the broker refused
    left        NAME
    failed      NAME REASON

confluent.py, aio.py, kafka_python.py are such programs, and ../java/Members.java and ../go/members/main.go.
`host.py` is the test's side, `ledger.py` checks what the lines say.
"""
