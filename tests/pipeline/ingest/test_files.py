"""Tests the file operations that the ingest relies on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from barnabas.pipeline.ingest.files import LocalFiles, hidden, join


def test_one_of_many_creates_a_file_and_it_is_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    contents = [bytes([number]) * 10_000 for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda data: LocalFiles().create(path, data), contents))
    assert made.count(True) == 1
    assert LocalFiles().read(path) == contents[made.index(True)]
    assert LocalFiles().names(str(tmp_path / "a")) == ["b"]


def test_missing_files(tmp_path: Path) -> None:
    files, nowhere = LocalFiles(), str(tmp_path / "nowhere")
    assert (files.read(nowhere), files.names(nowhere), files.tree(nowhere)) == (None, [], [])
    assert not files.rename(nowhere, str(tmp_path / "target"))
    files.remove(nowhere)


def test_trees_leave_hidden_files_out(tmp_path: Path) -> None:
    for path in ("a/b", "a/.b.crc", "_SUCCESS", "_x/y", "c"):
        LocalFiles().create(str(tmp_path / path), b"")
    assert LocalFiles().tree(str(tmp_path)) == ["a/b", "c"]
    assert hidden("a/_b/c")
    assert not hidden("a//b")
    LocalFiles().remove(str(tmp_path / "a"))
    assert LocalFiles().tree(str(tmp_path)) == ["c"]


def test_paths_and_uris_are_joined_alike() -> None:
    assert join("/a/", "b", "/c/") == "/a/b/c"
    assert join("s3a://bucket/", "b") == "s3a://bucket/b"


def test_local_paths_for_spark_have_a_scheme() -> None:
    assert LocalFiles().for_spark("/lake/t") == "file:///lake/t"
