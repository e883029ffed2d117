"""What a broker tells of its cluster (see ClusterView.java), held against what the one before it has told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

View = Mapping[str, Any]
COORDINATED = ("groups", "transactions")
_EPOCH = re.compile(r" epoch=-?\d+$")


def unlike(expected: object, shown: object, path: str = "") -> Iterator[str]:
    """A line for each place where two trees of what JSON can hold are not the same."""
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


def carried(view: View, *, one_version: bool = True) -> dict[str, Any]:
    """What has to come through a change of brokers unchanged.

    Left out: offsets and epochs of the metadata log (see `assert_went_on`), what a broker's own software supports, and
    those of its settings that do not come from metadata. Versions of Kafka have other keys and other habits: unless it
    is `one_version`, of settings only those that were set are kept.
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
    """Of a broker what was set, of others all, without the prose."""
    if not one_version:
        dynamic = {name: entry for name, entry in entries.items() if entry["source"].startswith("DYNAMIC_")}
        return {name: f"{entry['value']} {entry['source']}" for name, entry in dynamic.items()}
    return {
        name: {key: value for key, value in entry.items() if key != "documentation"}
        for name, entry in entries.items()
        if not resource.startswith("BROKER") or entry["source"].startswith("DYNAMIC_")
    }


def assert_same_cluster(shown: View, expected: View, *, one_version: bool = True) -> None:
    """Both show the same cluster, and the metadata log has gone on in between."""
    found = list(unlike(carried(expected, one_version=one_version), carried(shown, one_version=one_version)))
    assert not found, "\n".join(found)
    assert_went_on(shown, expected)


def assert_went_on(shown: View, before: View) -> None:
    """A start is an epoch of its own in the metadata log, and no offset goes back."""
    assert shown["quorum"]["epoch"] > before["quorum"]["epoch"]
    assert shown["quorum"]["highWatermark"] > before["quorum"]["highWatermark"]
    for partition, found in before["offsets"].items():
        assert _leader_epoch(shown["offsets"][partition]) >= _leader_epoch(found), partition


def _leader_epoch(offsets: Mapping[str, str]) -> int:
    match = _EPOCH.search(offsets["latest"])
    assert match is not None
    return int(match[0].removeprefix(" epoch="))
