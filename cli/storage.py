"""`barnabas format` and `barnabas storage`: kafka-storage, with its flags, output and errors.

Exit codes: 0 done, 1 failed or a problem was found, 2 the command line or the configuration is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas.cli.exit_codes import EXIT_FAILED

if TYPE_CHECKING:
    from barnabas.broker.metadata.quorum import InitialVoter
    from barnabas.broker.startup.log_dir_formatter import FormatPlan
    from barnabas.config.broker_config import BrokerConfig


F = TypeVar("F", bound=Callable[..., Any])

_config_option = click.option(
    "-c",
    "--config",
    "properties",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration file to use.",
)


def _refuse(text: str) -> None:
    click.echo(text, err=True)
    sys.exit(EXIT_FAILED)


def _load(properties: Path, overrides: Sequence[str] = ()) -> BrokerConfig:
    from barnabas.broker.startup.serving import load_config

    return load_config(str(properties), overrides)


def _directories(config: BrokerConfig) -> list[str]:
    """The log directories and the metadata directory, sorted, each once."""
    from barnabas.config.catalogue.controller import METADATA_LOG_DIR

    wanted = config[METADATA_LOG_DIR]
    return sorted({_plain(path) for path in (*config.log_dirs, *([wanted] if wanted else []))})


def _plain(path: str) -> str:
    return path.rstrip("/") or "/"


@click.command("format")
@_config_option
@click.option("-t", "--cluster-id", required=True, help="The cluster id to use.")
@click.option(
    "--keep-cluster-id",
    is_flag=True,
    help="Use the cluster id of a directory that is formatted already, if there is one.",
)
@click.option(
    "-S",
    "--add-scram",
    "scram",
    multiple=True,
    metavar="SCRAM_CREDENTIAL",
    help="An initial SCRAM user of the cluster, such as 'SCRAM-SHA-256=[name=alice,password=alice-secret]'. "
    "May be repeated.",
)
@click.option(
    "--add-scram-file",
    "scram_file",
    type=click.File(),
    metavar="FILE",
    help="A file with such users, one a line, which other users of the machine do not see as they see a command line. "
    "- is standard input.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are formatted already.")
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set one key, as for `serve`."
)
@click.option("-r", "--release-version", help="The release with the initial feature levels of the cluster.")
@click.option(
    "-f",
    "--feature",
    "features",
    multiple=True,
    metavar="FEATURE=LEVEL",
    help="The level of one feature, such as kraft.version=1. May be repeated.",
)
@click.option(
    "-s",
    "--standalone",
    is_flag=True,
    help="Make this controller the only voter of a dynamic quorum.",
)
@click.option(
    "-N",
    "--no-initial-controllers",
    is_flag=True,
    help="Format without voters: the controller joins the quorum of controller.quorum.bootstrap.servers.",
)
@click.option(
    "-I",
    "--initial-controllers",
    metavar="VOTERS",
    help="The voters of a dynamic quorum: id@host:port:directory,...",
)
def format_dirs(**options: Any) -> None:
    """Format the log directories of this node, as `serve` does on its first start."""
    from barnabas.broker.startup.log_dir_formatter import Formatter
    from barnabas.broker.startup.scram_arguments import FormatterError
    from barnabas.storage.env import RealEnv

    _check_exclusive(options)
    try:
        plan = _plan(_load(options["properties"], options["overrides"]), options)
        Formatter(plan, RealEnv(), click.echo).run()
    except (FormatterError, OSError) as error:
        _refuse(str(error))


def _check_exclusive(options: dict[str, Any]) -> None:
    names = ("standalone", "no_initial_controllers", "initial_controllers")
    given = [f"--{name.replace('_', '-')}" for name in names if options[name] not in (False, None)]
    if len(given) > 1:
        raise click.UsageError(f"argument {given[1]} is not allowed with argument {given[0]}")


def _plan(config: BrokerConfig, options: dict[str, Any]) -> FormatPlan:
    """The plan of the options and the configuration. Raises FormatterError."""
    from barnabas.broker.startup.log_dir_formatter import FormatPlan
    from barnabas.config.broker_config import FIRST_NODE_ID
    from barnabas.config.catalogue.controller import (
        CONTROLLER_LISTENER_NAMES,
        CONTROLLER_QUORUM_VOTERS,
        METADATA_LOG_DIR,
    )
    from barnabas.config.catalogue.server import UNSTABLE_FEATURE_VERSIONS_ENABLE

    node_id = FIRST_NODE_ID if config.node_id is None else config.node_id
    voters_configured = bool(config[CONTROLLER_QUORUM_VOTERS])
    listeners = config[CONTROLLER_LISTENER_NAMES]
    return FormatPlan(
        cluster_id=_kept_cluster_id(config, options) or options["cluster_id"],
        node_id=node_id,
        log_dirs=_directories(config),
        metadata_log_dir=_plain(config[METADATA_LOG_DIR] or config.log_dirs[0]),
        controller_listener=listeners[0] if listeners else "CONTROLLER",
        release_version=options["release_version"],
        features=_features(options["features"]),
        scram=[*options["scram"], *_lines(options["scram_file"])],
        initial_voters=_initial_voters(config, node_id, options, voters_configured=voters_configured),
        no_initial_controllers=options["no_initial_controllers"],
        voters_configured=voters_configured,
        ignore_formatted=options["ignore_formatted"],
        unstable=config[UNSTABLE_FEATURE_VERSIONS_ENABLE],
    )


def _kept_cluster_id(config: BrokerConfig, options: dict[str, Any]) -> str | None:
    from barnabas.broker.startup.scram_arguments import FormatterError
    from barnabas.storage.env import RealEnv
    from barnabas.storage.errors import InconsistentMetadataError
    from barnabas.storage.log.checkpoints import MetaProperties

    try:
        for path in _directories(config) if options["keep_cluster_id"] else ():
            found = MetaProperties.read(RealEnv(), path)
            if found is not None:
                return found.cluster_id
    except InconsistentMetadataError as error:
        raise FormatterError(str(error)) from error
    return None


def _lines(file: Iterable[str] | None) -> list[str]:
    """The lines that are not empty."""
    return [] if file is None else [line.strip() for line in file if line.strip()]


def _features(arguments: Sequence[str]) -> dict[str, int]:
    from barnabas.broker.startup.scram_arguments import FormatterError

    levels: dict[str, int] = {}
    for argument in arguments:
        name, equals, level = argument.strip().partition("=")
        if not equals:
            raise FormatterError(f"Can't parse feature=level string {argument}: equals sign not found.")
        try:
            levels[name] = _short(level)
        except ValueError:
            raise FormatterError(
                f"Can't parse feature=level string {argument}: unable to parse {level} as a short."
            ) from None
    return levels


def _short(text: str) -> int:
    number = int(text)
    if not -(2**15) <= number < 2**15:
        raise ValueError(text)
    return number


def _initial_voters(
    config: BrokerConfig, node_id: int, options: dict[str, Any], *, voters_configured: bool
) -> list[InitialVoter]:
    """The voters of --standalone or --initial-controllers. Raises FormatterError."""
    from barnabas.broker.startup.log_dir_formatter import parse_voters
    from barnabas.broker.startup.scram_arguments import FormatterError
    from barnabas.config.catalogue.controller import CONTROLLER_QUORUM_BOOTSTRAP_SERVERS
    from barnabas.config.catalogue.server import PROCESS_ROLES

    named = options["initial_controllers"]
    voters = [] if named is None else parse_voters(named)
    if options["standalone"]:
        voters = [_standalone(config, node_id)]
    if voters and voters_configured:
        raise FormatterError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    looks_for_quorum = bool(config[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]) and not voters_configured
    if (
        looks_for_quorum
        and "controller" in config[PROCESS_ROLES]
        and not (voters or options["no_initial_controllers"])
    ):
        raise FormatterError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return voters


def _standalone(config: BrokerConfig, node_id: int) -> InitialVoter:
    from barnabas.broker.controller.registration import configured_controller_listeners
    from barnabas.broker.metadata.quorum import InitialVoter
    from barnabas.broker.startup.scram_arguments import FormatterError
    from barnabas.config.catalogue.server import PROCESS_ROLES
    from barnabas.protocol.wire import random_uuid

    if "controller" not in config[PROCESS_ROLES]:
        raise FormatterError("You can only use --standalone on a controller.")
    listeners = configured_controller_listeners(config)
    if not listeners:
        raise FormatterError("No controller listeners found.")
    return InitialVoter(node_id, random_uuid(os.urandom), listeners[0].host or "localhost", listeners[0].port)


@click.group()
def storage() -> None:
    """Inspect and format log directories."""


storage.add_command(format_dirs)


@storage.command()
@_config_option
def info(properties: Path) -> None:
    """Show the log directories, their metadata and their problems."""
    from barnabas.cli.storage_info import describe

    lines, is_sound = describe(_directories(_load(properties)))
    for line in lines:
        click.echo(line)
    if not is_sound:
        sys.exit(EXIT_FAILED)


@storage.command("random-uuid")
def random_id() -> None:
    """Print a random UUID, for a cluster id or a directory id."""
    from barnabas.protocol.wire import random_uuid, uuid_to_string

    click.echo(uuid_to_string(random_uuid(os.urandom)))


@storage.command("version-mapping")
@click.option("-r", "--release-version", help="The release. Default: the newest stable one.")
def version_mapping(release_version: str | None) -> None:
    """Print the initial feature levels of a release."""
    from barnabas.broker.metadata.versions import (
        FEATURES,
        LATEST_PRODUCTION,
        UnknownVersionError,
        metadata_version,
        parse_version,
    )

    newest = metadata_version(LATEST_PRODUCTION)
    assert newest is not None
    asked = newest.name if release_version is None else release_version
    try:
        found = parse_version(asked, unstable=True)
    except UnknownVersionError as error:
        _refuse(str(error))
        return
    click.echo(f"metadata.version={found.level} ({asked})")
    for feature in FEATURES:
        click.echo(f"{feature.name}={feature.default_level(found.level)}")


@storage.command("feature-dependencies")
@click.option(
    "-f",
    "--feature",
    "features",
    required=True,
    multiple=True,
    metavar="FEATURE=LEVEL",
    help="The feature and its level, such as metadata.version=5. May be repeated.",
)
def feature_dependencies(features: tuple[str, ...]) -> None:
    """Print the dependencies of feature levels on other features."""
    from barnabas.cli.storage_info import dependency_lines

    try:
        for argument in features:
            for line in dependency_lines(argument):
                click.echo(line)
    except ValueError as error:
        _refuse(str(error))
