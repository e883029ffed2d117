"""membership: what this broker exchanges with the controller of its cluster.

`controller_channel` sends requests to whichever node is the active controller. Over it go: this broker's registration
and heartbeats (`lifecycle`), what clients ask of the controller (`forwarding`), blocks of producer ids
(`producer_ids`), changes of the ISR of partitions that this broker leads (`alter_partition`) and the log directories of
its replicas (`directory_assignment`).

Used by the handlers (through broker.broker), by the coordinators and by replica, which know it by protocols of their
own. Uses node_client and the metadata; nothing of the embedded controller, whose place it takes.
"""
