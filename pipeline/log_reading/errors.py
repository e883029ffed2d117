"""What can go wrong while a log directory is read."""


class LogReadingError(Exception):
    """A log directory cannot be read as it was asked for; the message says which and why."""


class NoSuchLogError(LogReadingError):
    """There is no log at a path, or no partition of that name."""


class DataLossError(LogReadingError):
    """Offsets that were to be read are gone: retention or DeleteRecords has taken them, or the log was cut."""


class BusyDirectoryError(LogReadingError):
    """A directory changed during every attempt to read it."""
