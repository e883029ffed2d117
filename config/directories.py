"""Paths of the configuration that lead to the same directory, which only the file system knows.

A directory that is named twice would be locked, written and counted twice. Apache Kafka, too, does not start with one
(MetaPropertiesEnsemble: it finds a directory.id twice); a repeated entry of the very same spelling is dropped by both.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from config.catalogue.controller import METADATA_LOG_DIR
from config.catalogue.log import LOG_DIR, LOG_DIRS
from config.keys import ConfigError

if TYPE_CHECKING:
    from config.broker_config import BrokerConfig

Identity = tuple[int, int] | str


def directory_errors(config: "BrokerConfig") -> Iterator[ConfigError]:
    """Every path in log.dirs and metadata.log.dir that is another spelling of one before it: `/a/`, `/a/../a`, a
    relative path, a symbolic link, another place where the same directory is mounted."""
    key = LOG_DIRS if config[LOG_DIRS] else LOG_DIR
    found: dict[Identity, str] = {}
    for path in config.log_dirs:
        first = found.setdefault(_identity(path), path)
        if first != path:
            yield key.error(
                ",".join(config.log_dirs), f"different directories: {first} and {path} are the same one"
            ).at(config.place(key))
    wanted = config[METADATA_LOG_DIR]
    same = None if wanted is None else found.get(_identity(wanted))
    if wanted is not None and same is not None and same.rstrip("/") != wanted.rstrip("/"):
        yield METADATA_LOG_DIR.error(
            wanted, f"written as in {key.name}, where the same directory is {same}"
        ).at(config.place(METADATA_LOG_DIR))


def _identity(path: str) -> Identity:
    """The directory's own, where it is there already; of one that is to be made, the path without detours."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    except ValueError:
        return path  # no file has a name with a NUL in it
    return status.st_dev, status.st_ino
