"""The log directories of one broker, and every log in them.

`log_manager` holds the logs, `log_dirs` and `log_dir` the directories with their locks and checkpoints, `loader`
reads a partition's directory back after a stop of any kind, `future_logs` are logs on their way to another directory.
"""
