from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.admin.errors import BadFileError
from barnabas.cli.admin.files import read_json, read_partitions, read_topics
from barnabas.cli.admin.partitions import TopicPartition


def test_files_of_partitions(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 1, "offset": 5}], "version": 1}')
    (entry,) = read_partitions(file)
    assert entry.partition == TopicPartition("t", 1)
    assert entry.integer("offset", file) == 5
    with pytest.raises(BadFileError, match="and a list is expected"):
        entry.list_of("offset", int, file)
    with pytest.raises(BadFileError, match="replicas of t-1 is None"):
        entry.integer("replicas", file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[]", "an object is expected, not list"),
        ("{}", 'no list of "partitions"'),
        ('{"partitions": [], "version": 2}', "Not supported version field value 2"),
        ('{"partitions": [{"topic": "t"}]}', '"partition": NUMBER'),
        ('{"partitions": [7]}', '"partition": NUMBER'),
        (
            '{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}',
            "duplicate .* t-1",
        ),
    ],
)
def test_invalid_files_are_rejected(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(text)
    with pytest.raises(BadFileError, match=said):
        read_partitions(file)


def test_files_of_topics(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text('{"topics": [{"topic": "t"}, {"topic": "u"}]}')
    assert read_topics(file) == ["t", "u"]
    for text in ('{"topics": ["t"]}', '{"topics": [{"topic": "t"}, {"topic": "t"}]}'):
        file.write_text(text)
        with pytest.raises(BadFileError):
            read_topics(file)
    with pytest.raises(BadFileError, match="cannot be read"):
        read_json(tmp_path)
