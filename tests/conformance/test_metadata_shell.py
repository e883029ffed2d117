"""Kafka's metadata shell and its dump tool read the same as we do in our metadata log and our snapshots."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.handover.cluster_view import unlike
from tests.conformance.handover.history import Cluster, Turn
from tests.conformance.handover.image_tree import comparable, image_of, tree_of
from tests.conformance.handover.sides import OURS, Directory
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.kafka_jars import require_classpath, require_shell

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(600)]

SHELL_LIMIT_S = 60
SHELL_TRIES = 8
MANY_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "5000"}


@pytest.fixture(scope="module")
def left(java: JavaAdmin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    """A directory in which Barnabas has worked twice and written several snapshots."""
    directory = Directory(tmp_path_factory.mktemp("ours"))
    broker = directory.broker(OURS)
    broker.overrides.update(MANY_SNAPSHOTS)
    cluster = Cluster(seed=7)
    try:
        for number in range(2):
            broker.start()
            Turn(cluster, number, java, broker.bootstrap).play(directory.data, ends_with_kill=False)
            java.forget(broker.bootstrap)
            assert broker.stop() == broker.clean_status
        yield directory
    finally:
        directory.end()


def assert_same_tree(kafka: dict[str, Any], log_dir: Path) -> None:
    """Kafka's image equals ours."""
    ours = tree_of(image_of(log_dir))
    shown = comparable(kafka)
    quotas = shown.pop("clientQuotas")
    assert set(_leaves(quotas)) <= set(ours.pop("clientQuotas"))
    found = list(unlike(shown, ours))
    assert not found, "\n".join(found)


def _leaves(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for one in tree.values():
            yield from _leaves(one)
    elif tree is not None:
        yield _number(tree)


def _number(text: str) -> str:
    """A Java double as Python writes it."""
    return str(float(text))


def test_kafka_reads_the_log_and_each_snapshot_as_we_do(left: Directory, java: JavaAdmin) -> None:
    assert len(left.snapshots()) > 2
    assert_same_tree(java.tree(left.metadata_files())["tree"], left.data)
    segments = [path for path in left.metadata_files() if path.suffix == ".log"]
    whole = java.tree(segments)["tree"]
    for snapshot in left.snapshots():  # replayed after any of them, the log leads to the same image
        found = list(unlike(_known(java.tree([snapshot, *segments])["tree"]), _known(whole)))
        assert not found, "\n".join(found)


def _known(tree: dict[str, Any]) -> dict[str, Any]:
    """The parts that Kafka replays correctly from a log without its snapshots: not credentials (ScramDelta.apply)."""
    return {name: part for name, part in tree.items() if name != "scram"}


def test_the_metadata_shell_shows_our_snapshots(left: Directory, java: JavaAdmin) -> None:
    """The shell, as a process of its own, prints each part of the tree that Kafka's classes read.

    It begins to print after the first offset it has applied (MetadataShell.waitUntilCaughtUp), while the batches of the
    snapshot still arrive one by one. On a busy machine its tree may thus be incomplete: the test runs it several times,
    and it must print everything once.
    """
    snapshot = left.snapshots()[-1]
    tree = java.tree([snapshot])["tree"]
    wanted = {f"{name}:" for name in ("image", *tree)}
    wanted.update(text for name in ("configs", "topics", "features", "acls") for text in _texts(tree[name]))
    missing = wanted
    for _ in range(SHELL_TRIES):
        missing = wanted - {line.strip() for line in shell(snapshot, "tree", "/").splitlines()}
        if not missing:
            break
    assert not missing


def _texts(tree: Any) -> Iterator[str]:
    for name, one in tree.items():
        yield f"{name}:"
        if isinstance(one, dict):
            yield from _texts(one)
        elif one:
            yield one


def shell(snapshot: Path, *words: str) -> str:
    """The output of kafka-metadata-shell."""
    classpath = os.pathsep.join([require_classpath(), require_shell()])
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", classpath]
    done = subprocess.run(
        [*command, "org.apache.kafka.shell.MetadataShell", "--snapshot", str(snapshot), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=SHELL_LIMIT_S,
    )
    return done.stdout


def test_the_dump_tool_decodes_every_record(left: Directory, java: JavaAdmin) -> None:
    for path in left.metadata_files():
        done = java.tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path))
        assert done.status == 0
        payloads = re.findall(r'payload: \{"type":"(\w+)"', done.out)
        assert len(payloads) == sum(java.tree([path])["records"].values())
        assert "skipping" not in done.out.lower()
