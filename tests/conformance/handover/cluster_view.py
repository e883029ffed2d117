"""Compares a broker's description of its cluster (see ClusterView.java) with that of the broker before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

View = Mapping[str, Any]
COORDINATED = ("groups", "transactions")
_EPOCH = re.compile(r" epoch=-?\d+$")


def unlike(expected: object, shown: object, path: str = "") -> Iterator[str]:
    """A line for each place in which two trees of JSON values differ."""
    if isinstance(expected, dict) and isinstance(shown, dict):
        for key in sorted(expected.keys() | shown.keys()):
            at = f"{path}/{key}"
            if key not in shown:
                yield f"{at}: not there, expected {expected[key]!r}"
            elif key not in expected:
                yield f"{at}: not expected, {shown[key]!r}"
            else:
                yield from unlike(expected[key], shown[key], at)
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        for index, (one, other) in enumerate(zip(expected, shown, strict=True)):
            yield from unlike(one, other, f"{path}/{index}")
    elif expected != shown:
        yield f"{path}: expected {expected!r}, got {shown!r}"


def durable_parts(view: View, *, one_version: bool = True) -> dict[str, Any]:
    """The parts that must survive a change of brokers.

    Left out: offsets and epochs of the metadata log (see `assert_log_advanced`), the features that a broker supports,
    and its settings that do not come from metadata. Versions of Kafka differ in keys and defaults: unless it is
    `one_version`, only settings with an explicit value are kept.
    """
    kept = {name: part for name, part in view.items() if name not in (*COORDINATED, "quorum")}
    kept["features"] = view["features"]["finalized"]
    kept["quorum"] = {key: view["quorum"][key] for key in ("leader", "voters", "observers", "nodes")}
    stored = {
        resource: _stored(resource, entries, one_version) for resource, entries in view["configs"].items()
    }
    kept["configs"] = {resource: entries for resource, entries in stored.items() if entries or one_version}
    kept["offsets"] = {
        partition: {name: _EPOCH.sub("", text) for name, text in found.items()}
        for partition, found in view["offsets"].items()
    }
    return kept


def _stored(resource: str, entries: Mapping[str, Any], one_version: bool) -> dict[str, Any]:
    """The explicit settings of a broker, or all of another resource, without documentation."""
    if not one_version:
        dynamic = {name: entry for name, entry in entries.items() if entry["source"].startswith("DYNAMIC_")}
        return {name: f"{entry['value']} {entry['source']}" for name, entry in dynamic.items()}
    return {
        name: {key: value for key, value in entry.items() if key != "documentation"}
        for name, entry in entries.items()
        if not resource.startswith("BROKER") or entry["source"].startswith("DYNAMIC_")
    }


def assert_same_cluster(shown: View, expected: View, *, one_version: bool = True) -> None:
    """Both show the same cluster, and the metadata log has advanced in between."""
    found = list(
        unlike(
            durable_parts(expected, one_version=one_version), durable_parts(shown, one_version=one_version)
        )
    )
    assert not found, "\n".join(found)
    assert_log_advanced(shown, expected)


def assert_log_advanced(shown: View, before: View) -> None:
    """Each start begins an epoch in the metadata log, and no epoch or high watermark decreases."""
    assert shown["quorum"]["epoch"] > before["quorum"]["epoch"]
    assert shown["quorum"]["highWatermark"] > before["quorum"]["highWatermark"]
    for partition, found in before["offsets"].items():
        assert _leader_epoch(shown["offsets"][partition]) >= _leader_epoch(found), partition


def _leader_epoch(offsets: Mapping[str, str]) -> int:
    match = _EPOCH.search(offsets["latest"])
    assert match is not None
    return int(match[0].removeprefix(" epoch="))
