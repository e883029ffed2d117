"""`barnabas reassign-partitions`: kafka-reassign-partitions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.cli.admin.calls.cluster import describe_cluster
from barnabas.cli.admin.calls.configs import alter_configs
from barnabas.cli.admin.calls.log_dirs import alter_replica_log_dirs, describe_log_dirs
from barnabas.cli.admin.calls.reassignments import alter_reassignments, list_reassignments
from barnabas.cli.admin.calls.topics import describe_topics
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError, ServerError
from barnabas.cli.admin.files import read_topics
from barnabas.cli.admin.names import ResourceType
from barnabas.cli.admin.options import (
    FILE,
    ParsedOptions,
    admin_command,
    flag,
    option,
    refuse,
    session,
)
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.cli.admin.reassignment import (
    LOG_DIRS_RATE,
    Changes,
    Plan,
    Replica,
    no_throttles,
    plan_text,
    read_plan,
    spread,
    throttles,
)
from barnabas.cli.admin.shapes import ReassignmentRow
from barnabas.protocol.errors import ErrorCode

ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_PERMITTED: Final = {
    "generate": {"topics-to-move-json-file", "broker-list", "disable-rack-aware"},
    "execute": {
        "reassignment-json-file",
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    },
    "verify": {"reassignment-json-file", "preserve-throttles"},
    "cancel": {"reassignment-json-file", "preserve-throttles", "timeout"},
    "list": set(),
}
_CONTROLLER_ACTIONS: Final = ("cancel", "list")
_RETRY_S: Final = 0.1
DEFAULT_TIMEOUT_MS: Final = 10_000


@admin_command(
    "reassign-partitions", short_help="Move replicas between brokers and log directories.", controller=True
)
@flag("--generate", "Print a plan for the partitions of topics; nothing is moved.")
@flag("--execute", "Start the reassignments of a plan.")
@flag("--verify", "Show the state of a plan, and remove throttles when it is complete.")
@flag("--cancel", "Cancel the reassignments of a plan.")
@flag("--list", "List the reassignments in progress.")
@option(
    "--reassignment-json-file",
    'The plan: {"partitions": [{"topic": "t", "partition": 1, "replicas": [1, 2], "log_dirs": ["any", "/d"]}]}; '
    "log_dirs may be omitted.",
    kind=FILE,
    metavar="FILE",
)
@option("--topics-to-move-json-file", 'Topics: {"topics": [{"topic": "t"}]}.', kind=FILE, metavar="FILE")
@option("--broker-list", "With --generate: the target brokers.", metavar="ID,...")
@flag("--disable-rack-aware", "With --generate: ignore the racks of brokers.")
@flag("--additional", "With --execute: even if other reassignments are in progress.")
@option("--throttle", "With --execute: bytes per second between brokers.", kind=int, metavar="N")
@option(
    "--replica-alter-log-dirs-throttle",
    "With --execute: bytes per second between directories.",
    kind=int,
    metavar="N",
)
@flag("--preserve-throttles", "With --verify and --cancel: keep throttles.")
@option(
    "--timeout",
    f"The time until moves between directories must have begun, in ms. Default: {DEFAULT_TIMEOUT_MS}.",
    kind=int,
)
@flag(
    "--disallow-replication-factor-change", "With --execute: reject plans that change the number of replicas."
)
def reassign_partitions(given: ParsedOptions) -> None:
    """Move replicas between brokers and log directories: kafka-reassign-partitions.

    \b
    barnabas reassign-partitions --execute --reassignment-json-file plan.json
    barnabas reassign-partitions --verify --reassignment-json-file plan.json
    """
    action = given.one_action(*ACTIONS)
    check_usage(given, action)
    plan = Plan({}, {})
    if (path := given.path("reassignment-json-file")) is not None:
        plan = read_plan(path, is_complete=action == "execute")
    with session(given) as (client, out):
        if action == "list":
            list_moves(client, out)
        elif action == "generate":
            generate(client, out, given)
        elif action == "execute":
            execute(client, out, given, plan)
        elif action == "verify":
            verify(client, out, given, plan)
        else:
            cancel(client, out, given, plan)


def check_usage(given: ParsedOptions, action: str) -> None:
    """Raises UsageError for options that the action does not have, or lacks."""
    for others in _PERMITTED.values():
        for name in others - _PERMITTED[action]:
            given.forbid(name, action)
    if given.has("bootstrap-controller") and action not in _CONTROLLER_ACTIONS:
        refuse(f"--{action} needs brokers: --bootstrap-server")
    if action == "generate":
        given.need("topics-to-move-json-file", "broker-list")
    elif action != "list":
        given.need("reassignment-json-file")


# ---- --list, --generate


def list_moves(client: AdminClient, out: Output) -> None:
    """--list"""
    moves = list_reassignments(client)
    out.line("Current partition reassignments:" if moves else "No partition reassignments found.")
    for each, move in sorted(moves.items()):
        out.row(ReassignmentRow(*each, move.replicas, move.adding, move.removing, None, False))
        adding = f" adding: {_ids(move.adding)}." if move.adding else ""
        removing = f" removing: {_ids(move.removing)}." if move.removing else ""
        out.line(f"{each}: replicas: {_ids(move.replicas)}.{adding}{removing}")


def generate(client: AdminClient, out: Output, given: ParsedOptions) -> None:
    """--generate"""
    path = given.path("topics-to-move-json-file")
    assert path is not None
    brokers = _broker_list(given.text("broker-list") or "")
    nodes = {node.id: node for node in describe_cluster(client).nodes}
    missing = [broker for broker in brokers if broker not in nodes]
    if missing:
        raise AdminError(f"Unknown broker id {missing[0]}")
    if not given.has("disable-rack-aware") and any(nodes[broker].rack for broker in brokers):
        raise AdminError(
            "the brokers have racks, and replicas cannot be spread over racks: use --disable-rack-aware"
        )
    current = _assignments(client, read_topics(path))
    try:
        proposed = spread(current, brokers)
    except ValueError as error:
        raise AdminError(str(error)) from None
    for each in sorted(current):
        out.row(ReassignmentRow(*each, list(current[each]), [], [], proposed[each], False))
    dirs = _current_dirs(client, current)
    out.line(f"Current partition replica assignment\n{plan_text(current, dirs)}\n")
    out.line(f"Proposed partition reassignment configuration\n{plan_text(proposed, {})}")


def _broker_list(text: str) -> list[int]:
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        refuse(f"--broker-list {text}: ids of brokers with commas in between are expected")
    if len(set(brokers)) != len(brokers):
        refuse(f"--broker-list {text}: Broker list contains duplicate entries")
    return brokers


def _assignments(client: AdminClient, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    return {
        TopicPartition(topic.name, each.number): each.replicas
        for topic in describe_topics(client, sorted(set(topics)))
        for each in topic.partitions
    }


def _current_dirs(
    client: AdminClient, assignment: Mapping[TopicPartition, Iterable[int]]
) -> dict[Replica, str]:
    """The log directories of the replicas; without brokers that do not answer."""
    found = {}
    for broker in sorted({broker for brokers in assignment.values() for broker in brokers}):
        if broker in client.cluster().nodes:
            for log_dir in describe_log_dirs(client, broker):
                for each in log_dir.replicas:
                    if each.partition in assignment and not each.is_future:
                        found[Replica(broker, each.partition)] = log_dir.path
    return found


# ---- --execute


def execute(client: AdminClient, out: Output, given: ParsedOptions, plan: Plan) -> None:
    """--execute"""
    moves = list_reassignments(client)
    if moves and not given.has("additional"):
        raise AdminError("Cannot execute because there is an existing partition assignment: see --additional")
    _check_brokers(client, plan)
    there = _assignments(client, (each.topic for each in plan.replicas))
    missing = sorted(each for each in plan.replicas if each not in there)
    if missing:
        raise AdminError(f"Unable to find partition: {', '.join(map(str, missing))}")
    current = {each: there[each] for each in plan.replicas}
    text = plan_text(current, _current_dirs(client, current))
    out.line(f"Current partition replica assignment\n\n{text}\n")
    out.line("Save this to use as the --reassignment-json-file option during rollback")
    limits = {}
    if (rate := given.number("throttle")) is not None and rate >= 0:
        limits = throttles(current, plan.replicas, moves, rate)
    _throttle(client, out, given, plan, limits)
    results = alter_reassignments(
        client,
        plan.replicas,
        allow_replication_factor_change=not given.has("disallow-replication-factor-change"),
    )
    if _show_results(out, results, "reassign"):
        names = ",".join(map(str, sorted(plan.replicas)))
        out.line(f"Successfully started partition reassignment{_s(plan.replicas)} for {names}")
        _move_dirs(client, out, given, plan.log_dirs)


def _check_brokers(client: AdminClient, plan: Plan) -> None:
    there = {node.id for node in describe_cluster(client).nodes}
    for broker in sorted({broker for brokers in plan.replicas.values() for broker in brokers}):
        if broker not in there:
            raise AdminError(f"Unknown broker id {broker}")


def _throttle(client: AdminClient, out: Output, given: ParsedOptions, plan: Plan, limits: Changes) -> None:
    rate, dirs_rate = given.number("throttle"), given.number("replica-alter-log-dirs-throttle")
    if rate is None and dirs_rate is None:
        return
    out.note("Warning: run --verify until the reassignment is done: it takes the throttles back.")
    if limits:
        alter_configs(client, limits)
        out.line(f"The inter-broker throttle limit was set to {rate} B/s")
    if dirs_rate is not None and dirs_rate >= 0:
        brokers = sorted({replica.broker for replica in plan.log_dirs})
        alter_configs(
            client,
            {(ResourceType.BROKER, str(broker)): {LOG_DIRS_RATE: str(dirs_rate)} for broker in brokers},
        )
        out.line(f"The replica-alter-dir throttle limit was set to {dirs_rate} B/s")


def _move_dirs(
    client: AdminClient, out: Output, given: ParsedOptions, targets: Mapping[Replica, str]
) -> None:
    """Retries until all moves have begun: a new replica must first exist on its broker."""
    pending = dict(targets)
    timeout_ms = given.number("timeout") or DEFAULT_TIMEOUT_MS
    deadline = time.monotonic() + timeout_ms / 1000
    while pending:
        for replica in _begun(client, pending):
            path = pending.pop(replica)
            where = f"{path} for replica {replica.partition} with broker {replica.broker}"
            out.line(f"Successfully started moving log directory to {where}")
        if pending and time.monotonic() >= deadline:
            names = ",".join(map(str, sorted(pending)))
            raise AdminError(
                f"Timed out before log directory move{_s(pending)} could be started for: {names}"
            )
        if pending:
            time.sleep(_RETRY_S)


def _begun(client: AdminClient, pending: Mapping[Replica, str]) -> list[Replica]:
    found = []
    for broker in sorted({replica.broker for replica in pending}):
        targets = {replica.partition: path for replica, path in pending.items() if replica.broker == broker}
        for each, error in alter_replica_log_dirs(client, broker, targets).items():
            if error is None:
                found.append(Replica(broker, each))
            elif not isinstance(error, ServerError) or error.code != ErrorCode.REPLICA_NOT_AVAILABLE:
                raise AdminError(f"Failed to alter dir for {Replica(broker, each)}: {error}")
    return sorted(found)


# ---- --verify, --cancel


def verify(client: AdminClient, out: Output, given: ParsedOptions, plan: Plan) -> None:
    """--verify"""
    moves = list_reassignments(client)
    waiting = [each for each in plan.replicas if each not in moves]
    there = _assignments(client, (each.topic for each in waiting))
    out.line("Status of partition reassignment:")
    for each, target in sorted(plan.replicas.items()):
        move = moves.get(each)
        current = move.replicas if move else there.get(each, [])
        adding, removing = (move.adding, move.removing) if move else ([], [])
        out.row(ReassignmentRow(*each, list(current), adding, removing, target, move is None))
        out.line(_state(each, list(current), target, is_moving=move is not None))
    dirs_move = _verify_dirs(client, out, plan.log_dirs)
    if not moves and not dirs_move and not given.has("preserve-throttles"):
        _clear_throttles(client, out, plan)


def _state(each: TopicPartition, current: list[int], target: list[int], *, is_moving: bool) -> str:
    if is_moving:
        return f"Reassignment of partition {each} is still in progress."
    if current == target:
        return f"Reassignment of partition {each} is completed."
    return (
        f"There is no active reassignment of partition {each}, but replica set is {_ids(current)} rather than "
        f"{_ids(target)}."
    )


def _verify_dirs(client: AdminClient, out: Output, targets: Mapping[Replica, str]) -> bool:
    """Whether replicas still move between directories."""
    is_moving = False
    for broker in sorted({replica.broker for replica in targets}):
        dirs = describe_log_dirs(client, broker)
        places = {(each.partition, each.is_future): found.path for found in dirs for each in found.replicas}
        for replica in sorted(replica for replica in targets if replica.broker == broker):
            current, future = places.get((replica.partition, False)), places.get((replica.partition, True))
            is_moving = is_moving or future is not None
            out.line(_dir_state(replica, targets[replica], current, future))
    return is_moving


def _dir_state(replica: Replica, target: str, current: str | None, future: str | None) -> str:
    where = f"Partition {replica.partition} on broker {replica.broker}"
    if current is None:
        return f"Partition {replica.partition} cannot be found in any live log directory on broker {replica.broker}."
    if future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if future is not None:
        return f"{where} is being moved to log dir {future} instead of {target}."
    if current != target:
        return f"{where} is not being moved from log dir {current} to {target}."
    return f"Reassignment of replica {replica} completed successfully."


def _clear_throttles(client: AdminClient, out: Output, plan: Plan) -> None:
    brokers = {*client.cluster().nodes, *(broker for brokers in plan.replicas.values() for broker in brokers)}
    topics = {each.topic for each in plan.replicas}
    out.line(f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(sorted(brokers))}")
    out.line(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(sorted(topics))}")
    alter_configs(client, no_throttles(brokers & set(client.cluster().nodes), topics))


def cancel(client: AdminClient, out: Output, given: ParsedOptions, plan: Plan) -> None:
    """--cancel"""
    active = sorted(list_reassignments(client, plan.replicas))
    if active:
        if _show_results(out, alter_reassignments(client, dict.fromkeys(active)), "cancel"):
            out.line(
                f"Successfully cancelled partition reassignment{_s(active)} for: {','.join(map(str, active))}"
            )
    else:
        out.line("None of the specified partition reassignments are active.")
    moving = _moving_dirs(client, plan.log_dirs)
    if moving:
        _move_dirs(client, out, given, moving)
    else:
        out.line("None of the specified partition moves are active.")
    if not given.has("preserve-throttles"):
        _clear_throttles(client, out, plan)


def _moving_dirs(client: AdminClient, targets: Mapping[Replica, str]) -> dict[Replica, str]:
    """The replicas that move to another directory, each with its current one."""
    found = {}
    for broker in sorted({replica.broker for replica in targets}):
        dirs = describe_log_dirs(client, broker)
        future = {each.partition for log_dir in dirs for each in log_dir.replicas if each.is_future}
        for log_dir in dirs:
            for each in log_dir.replicas:
                replica = Replica(broker, each.partition)
                if not each.is_future and each.partition in future and replica in targets:
                    found[replica] = log_dir.path
    return found


def _show_results(out: Output, results: Mapping[TopicPartition, AdminError | None], action: str) -> bool:
    """Prints the result of each; whether all succeeded."""
    for each, error in sorted(results.items()):
        out.result("partition", str(each), action, error)
        if error is not None:
            out.failed(f"{each}: {error}")
    return not any(results.values())


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _s(things: Any) -> str:
    return "" if len(things) == 1 else "s"
