"""The log directories of one broker, and every log in them.

`log_manager` holds the logs, `log_dirs` and `log_dir` the directories with their locks and checkpoints, `loader` opens
a partition's directory after a stop of any kind, `future_logs` are logs that move to another directory.
"""
