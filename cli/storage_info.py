"""The output of `barnabas storage info` and `feature-dependencies`, in the words of Kafka's StorageTool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from barnabas.broker.metadata.versions import FEATURES_BY_NAME, METADATA_VERSION, level_text, metadata_version
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import InconsistentMetadataError
from barnabas.storage.log.checkpoints import META_PROPERTIES, MetaProperties


def describe(directories: Sequence[str]) -> tuple[list[str], bool]:
    """The lines about log directories, and whether they have no problems."""
    found: list[str] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for path in directories:
        problem, properties = _check(path, first)
        if Path(path).is_dir():
            found.append(path)
        if problem is not None:
            problems.append(problem)
        first = first or properties
    lines = []
    if found:
        lines += ["Found log directory:" if len(found) == 1 else "Found log directories:"]
        lines += [*(f"  {path}" for path in found), ""]
    if first is not None:
        lines += [f"Found metadata: {{{_properties(first)}}}", ""]
    if problems:
        lines += ["Found problem:" if len(problems) == 1 else "Found problems:"]
        lines += [*(f"  {problem}" for problem in problems), ""]
    return lines, not problems


def _check(path: str, first: MetaProperties | None) -> tuple[str | None, MetaProperties | None]:
    """The problem of a directory, or None, and its meta.properties."""
    directory = Path(path)
    if not directory.is_dir():
        return f"{path} is not a directory" if directory.exists() else f"{path} does not exist", None
    if not (directory / META_PROPERTIES).exists():
        return f"{path} is not formatted.", None
    try:
        properties = MetaProperties.read(RealEnv(), path)
    except (InconsistentMetadataError, OSError) as error:
        return f"Error loading {path}/{META_PROPERTIES}: {error}", None
    if first is not None and properties is not None:
        if properties.cluster_id != first.cluster_id:
            return "Mismatched cluster IDs between storage directories.", properties
        if properties.node_id != first.node_id:
            return "Mismatched node IDs between storage directories.", properties
    return None, properties


def _properties(properties: MetaProperties) -> str:
    fields = {
        "cluster.id": properties.cluster_id,
        "node.id": str(properties.node_id),
        "version": "1",
        **({"directory.id": properties.directory_id} if properties.directory_id else {}),
        **properties.others,
    }
    return ", ".join(f"{key}={fields[key]}" for key in sorted(fields))


def dependency_lines(argument: str) -> Iterator[str]:
    """The dependencies of `feature=level`. Raises ValueError, in the tool's words."""
    name, equals, text = argument.partition("=")
    if not equals:
        raise ValueError(
            f"Invalid feature format: {argument}. Expected format: 'feature=version' (e.g. 'group.version=1')"
        )
    try:
        level = int(text)
    except ValueError:
        raise ValueError(f"Invalid version format: {text} for feature {name}") from None
    if name == METADATA_VERSION:
        if metadata_version(level) is None:
            raise ValueError(f"Unknown {METADATA_VERSION} {level}")
        yield f"{name}={level_text(name, level)} has no dependencies."
        return
    if name not in FEATURES_BY_NAME:
        raise ValueError(f"Unknown feature: {name}")
    found = next((one for one in FEATURES_BY_NAME[name].levels if one.level == level), None)
    if found is None:
        raise ValueError(f"Feature level {level} is not supported for feature {name}")
    if not found.dependencies:
        yield f"{name}={level} has no dependencies."
        return
    yield f"{name}={level} requires:"
    for needed, at_least in found.dependencies.items():
        yield f"    {needed}={level_text(needed, at_least)}"
