"""JSON files that commands read: partitions with offsets, with replicas, or alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.cli.admin.errors import BadFileError
from barnabas.cli.admin.partitions import TopicPartition

SUPPORTED_VERSION = 1


class FileEntry(NamedTuple):
    """One entry of "partitions": the partition and all fields."""

    partition: TopicPartition
    fields: dict[str, Any]

    def integer(self, name: str, path: Path) -> int:
        """A field that must be a whole number. Raises BadFileError."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadFileError(
                f"{path}: {name} of {self.partition} is {value!r}, and a whole number is expected"
            )
        return value

    def list_of(self, name: str, kind: type, path: Path) -> list[Any]:
        """A field that must be a list of numbers or strings. Raises BadFileError."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
            raise BadFileError(f"{path}: {name} of {self.partition} is {value!r}, and a list is expected")
        return value


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; its version must be 1 or absent. Raises BadFileError."""
    try:
        found = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{path} cannot be read: {error}") from None
    except ValueError as error:
        raise BadFileError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadFileError(f"{path}: an object is expected, not {type(found).__name__}")
    if found.get("version", SUPPORTED_VERSION) != SUPPORTED_VERSION:
        raise BadFileError(f"{path}: Not supported version field value {found['version']}")
    return found


def read_partitions(path: Path) -> list[FileEntry]:
    """The "partitions" of a file, each once. Raises BadFileError."""
    entries = [_entry(each, path) for each in _list(read_json(path), "partitions", path)]
    counts = Counter(str(each.partition) for each in entries)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise BadFileError(f"{path} contains duplicate topic partitions: {', '.join(twice)}")
    return entries


def read_topics(path: Path) -> list[str]:
    """The "topics" of a file, each once. Raises BadFileError."""
    topics = [
        each.get("topic") if isinstance(each, dict) else None
        for each in _list(read_json(path), "topics", path)
    ]
    if not all(isinstance(topic, str) for topic in topics):
        raise BadFileError(f'{path}: each of "topics" is to be {{"topic": NAME}}')
    if len(set(topics)) != len(topics):
        raise BadFileError(f"{path}: List of topics to reassign contains duplicate entries")
    return [str(topic) for topic in topics]


def _list(found: dict[str, Any], name: str, path: Path) -> list[Any]:
    value = found.get(name)
    if not isinstance(value, list):
        raise BadFileError(f'{path} has no list of "{name}"')
    return value


def _entry(each: Any, path: Path) -> FileEntry:
    topic, partition = (each.get("topic"), each.get("partition")) if isinstance(each, dict) else (None, None)
    if not isinstance(topic, str) or not isinstance(partition, int) or isinstance(partition, bool):
        raise BadFileError(f'{path}: {each!r} is not {{"topic": NAME, "partition": NUMBER ...}}')
    return FileEntry(TopicPartition(topic, partition), each)
