"""`barnabas features`: kafka-features."""

from __future__ import annotations

from typing import Any, Final

from barnabas.broker.metadata.versions import FEATURES, UnknownVersionError, metadata_version, parse_version
from barnabas.cli.admin.calls.cluster import (
    METADATA_VERSION,
    FeatureInfo,
    UpgradeType,
    describe_features,
    update_features,
)
from barnabas.cli.admin.client import ANYONE, Node
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.options import (
    ParsedOptions,
    admin_group,
    flag,
    option,
    options,
    refuse,
    session,
    subcommand,
)
from barnabas.cli.admin.shapes import FeatureRow, ResultRow

_DONE: Final = {"upgrade": "upgraded to", "downgrade": "downgraded to", "disable": "disabled"}


@admin_group("features", short_help="Show, raise and lower the levels of features.")
def features() -> None:
    """Show, raise and lower the levels of features, metadata.version among them: kafka-features.

    `barnabas storage` has version-mapping and feature-dependencies.

    \b
    barnabas features --bootstrap-server localhost:9092 describe
    barnabas features upgrade --feature group.version=1 --dry-run
    """


@subcommand(features, "describe")
@option("--node-id", "The broker or controller that answers. Default: any.", kind=int)
def describe(given: ParsedOptions) -> None:
    """Show the supported levels and the finalized level of each feature."""
    node = given.number("node-id")
    with session(given) as (client, out):
        if node is not None and node not in client.cluster().nodes:
            raise AdminError(
                f"the cluster has no node {node}, only {', '.join(map(str, client.cluster().nodes))}"
            )
        rows = []
        for each in describe_features(client, ANYONE if node is None else Node(node)):
            out.row(FeatureRow(*each[:4], None if each.epoch < 0 else each.epoch))
            rows.append(_cells(each))
        if out.is_terminal:
            out.table(("Feature", "Lowest", "Highest", "In force", "Epoch"), rows)
            return
        for cells in rows:
            out.line(_line(cells))


def _cells(each: FeatureInfo) -> tuple[str, str, str, str, str]:
    levels = (_level(each.name, level) for level in (each.min_supported, each.max_supported, each.finalized))
    low, high, finalized = levels
    return each.name, low, high, finalized, "-" if each.epoch < 0 else str(each.epoch)


def _line(cells: tuple[str, str, str, str, str]) -> str:
    """As Kafka's tool prints it."""
    heads = ("Feature", "SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel", "Epoch")
    return "\t".join(f"{head}: {cell}" for head, cell in zip(heads, cells, strict=True))


def _level(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    known = metadata_version(level)
    return f"UNKNOWN [{level}]" if known is None else known.name


def _update_options(function: Any) -> Any:
    function = flag("--dry-run", "Check the change without making it.")(function)
    function = options("--feature", "A feature and its level.", metavar="NAME=LEVEL")(function)
    function = option("--release-version", "All features as of this release: 4.3, or 4.3-IV0.")(function)
    return option("--metadata", "The release whose metadata.version is set; deprecated.")(function)


@subcommand(features, "upgrade")
@_update_options
def upgrade(given: ParsedOptions) -> None:
    """Raise levels."""
    _update(given, "upgrade", UpgradeType.UPGRADE)


@subcommand(features, "downgrade")
@flag("--unsafe", "Allow a downgrade that loses metadata.")
@_update_options
def downgrade(given: ParsedOptions) -> None:
    """Lower levels."""
    _update(given, "downgrade", _downgrade(given))


@subcommand(features, "disable")
@flag("--unsafe", "Allow a downgrade that loses metadata.")
@flag("--dry-run", "Check the change without making it.")
@options("--feature", "The feature.", metavar="NAME")
def disable(given: ParsedOptions) -> None:
    """Lower features to level 0."""
    if not given.has("feature"):
        refuse("You must specify at least one feature to disable")
    _send(given, "disable", dict.fromkeys(given.texts("feature"), 0), _downgrade(given))


def _downgrade(given: ParsedOptions) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if given.has("unsafe") else UpgradeType.SAFE_DOWNGRADE


def _update(given: ParsedOptions, action: str, kind: UpgradeType) -> None:
    given.forbid("release-version", "metadata", "feature")
    levels: dict[str, int] = {}
    try:
        if (release := given.text("release-version")) is not None:
            version = parse_version(release)
            levels = {METADATA_VERSION: version.level}
            defaults = {each.name: each.default_level(version.level) for each in FEATURES}
            levels |= {
                name: level for name, level in defaults.items() if level or kind is not UpgradeType.UPGRADE
            }
        if (release := given.text("metadata")) is not None:
            levels[METADATA_VERSION] = parse_version(release).level
    except UnknownVersionError as error:
        refuse(str(error))
    for text in given.texts("feature"):
        name, level = _feature(text)
        if name in levels:
            refuse(f"--feature {text}: Feature {name} was specified more than once.")
        levels[name] = level
    if not levels:
        refuse(f"You must specify at least one feature to {action}")
    _send(given, action, levels, kind)


def _feature(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals or not level.strip().isdecimal() or int(level) > 0x7FFF:
        refuse(f"--feature {text}: NAME=LEVEL is expected, with a level from 0 to {0x7FFF}")
    return name.strip(), int(level)


def _send(given: ParsedOptions, action: str, levels: dict[str, int], kind: UpgradeType) -> None:
    is_dry = given.has("dry-run")
    with session(given) as (client, out):
        results = update_features(client, levels, kind, validate_only=is_dry)
        for name in sorted(levels):
            message = results[name]
            level = "" if action == "disable" else f" {levels[name]}"
            error = None if message is None else "FEATURE_UPDATE_FAILED"
            out.row(ResultRow("feature", name, action, error, message))
            if message is None:
                out.line(f"{name} {'can be' if is_dry else 'was'} {_DONE[action]}{level}.")
            else:
                target = f" {name} to {levels[name]}" if action != "disable" else f" {name}"
                out.failed(f"Can not {action}{target}. {message}")
