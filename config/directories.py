"""Detects paths of the configuration that lead to the same directory, which only the file system knows.

A directory that is named twice would be locked, written and counted twice. Apache Kafka, too, does not start with one
(MetaPropertiesEnsemble: it finds a directory.id twice); a repeated entry of the very same spelling is dropped by both.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from barnabas.config.catalogue.controller import METADATA_LOG_DIR
from barnabas.config.keys import ConfigError, ConfigKey

Identity = tuple[int, int] | str


def directory_errors(
    log_dirs: Sequence[str],
    metadata_log_dir: str | None,
    key: ConfigKey[Any],
    place: Callable[[ConfigKey[Any]], str],
) -> Iterator[ConfigError]:
    """Every path in log.dirs and metadata.log.dir that is another spelling of one before it: `/a/`, `/a/../a`, a
    relative path, a symbolic link, another place where the same directory is mounted.

    `key` is the one that names the log directories (log.dirs or log.dir), `place` where a key was set.
    """
    found: dict[Identity, str] = {}
    for path in log_dirs:
        first = found.setdefault(_identity(path), path)
        if first != path:
            yield key.error(
                ",".join(log_dirs), f"different directories: {first} and {path} are the same one"
            ).at(place(key))
    if metadata_log_dir is None:
        return
    same = found.get(_identity(metadata_log_dir))
    if same is not None and same.rstrip("/") != metadata_log_dir.rstrip("/"):
        yield METADATA_LOG_DIR.error(
            metadata_log_dir, f"written as in {key.name}, where the same directory is {same}"
        ).at(place(METADATA_LOG_DIR))


def _identity(path: str) -> Identity:
    """The device and inode of an existing directory; the real path of one that does not exist yet."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    except ValueError:
        return path  # file names cannot contain NUL
    return status.st_dev, status.st_ino
