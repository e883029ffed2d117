"""Replicas that move between the log directories of this broker (KIP-113).

`alter_log_dirs` has the moves and takes their steps, `log_dir_move` is one of them, `replication_quota` is the rate
that copying keeps below. Called by the controller's log_dir_admin and by startup.
"""
