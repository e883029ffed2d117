"""The log directories of one broker, and every log in them.

`log_manager` has the logs, `log_dirs` and `log_dir` the directories with their locks and checkpoints, `loader` loads
and recovers a partition's directory, `future_logs` are logs that move to another log directory.
"""
