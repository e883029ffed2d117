"""The state of the cluster: the metadata log, the image that is its replay, and the levels of its formats.

`raft_log` is the log of a controller that is alone, with `quorum_state`, `records` (frames and versions) and snapshots
(`snapshot_files`, `raft_snapshots`, `snapshot_generator`) beside it. `replay` applies records to an `image`; `loader`
publishes each new image. `features` and `versions` are the feature levels (KIP-584).

Called by almost every room. It knows waiting, and storage for the log.
"""
