"""Errors of reading a log directory."""


class LogReadingError(Exception):
    """A log directory cannot be read as it was asked for; the message says which and why."""


class NoSuchLogError(LogReadingError):
    """There is no log at a path, or no partition of that name."""


class DataLossError(LogReadingError):
    """Requested offsets are gone: retention or DeleteRecords has deleted them, or the log was truncated."""


class BusyDirectoryError(LogReadingError):
    """A directory changed during every attempt to read it."""
