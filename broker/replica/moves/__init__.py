"""Replicas that move between the log directories of this broker (KIP-113).

`alter_log_dirs` holds the moves and runs their steps, `log_dir_move` is one of them, `replication_quota` limits the
rate of copying. Called by the controller's log_dir_admin and by startup.
"""
