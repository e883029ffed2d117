"""`barnabas cluster`: kafka-cluster."""

from __future__ import annotations

from barnabas.cli.admin.calls.cluster import describe_cluster, unregister_broker
from barnabas.cli.admin.calls.topics import describe_every_topic
from barnabas.cli.admin.commands.cluster_report import ClusterReport, registered_brokers
from barnabas.cli.admin.options import (
    ParsedOptions,
    admin_group,
    flag,
    option,
    refuse,
    session,
    subcommand,
)
from barnabas.cli.admin.shapes import ClusterRow, NodeRow, Row


@admin_group("cluster", short_help="Show the cluster's nodes and their health; unregister a broker.")
def cluster() -> None:
    """Show the cluster's id, its brokers and what is out of sync; unregister a broker: kafka-cluster, and describe.

    \b
    barnabas cluster list-endpoints --bootstrap-server localhost:9092
    """


@subcommand(cluster, "cluster-id")
def cluster_id(given: ParsedOptions) -> None:
    """Show the id of the cluster."""
    with session(given) as (client, out):
        found = describe_cluster(client).cluster_id
        out.row(ClusterRow(found))
        out.line(f"Cluster ID: {found}")


@subcommand(cluster, "list-endpoints")
@flag("--include-fenced-brokers", "Include brokers that are registered and fenced.")
def list_endpoints(given: ParsedOptions) -> None:
    """Show the endpoints of the brokers; with --bootstrap-controller, of the controllers."""
    with session(given) as (client, out):
        found = describe_cluster(client, include_fenced=given.has("include-fenced-brokers"))
        kind = "controller" if found.are_controllers else "broker"
        rows = [
            NodeRow(each.id, each.host, each.port, each.rack, _state(each.is_fenced, kind), kind)
            for each in found.nodes
        ]
        for row in rows:
            out.row(row)
        out.table(("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), rows)


def _state(is_fenced: bool, kind: str) -> str | None:
    if kind == "controller":
        return None
    return "fenced" if is_fenced else "unfenced"


@subcommand(cluster, "describe")
def describe(given: ParsedOptions) -> None:
    """Show brokers, racks and leaders, and the partitions whose replicas are not all in sync.

    The columns LEADERS and PREFERRED differ where the preferred leader does not lead. A broker is absent where replicas
    are assigned to it and the cluster names no such broker.
    """
    with session(given) as (client, out):
        if client.settings.is_controller:
            refuse("describe: brokers are asked, with --bootstrap-server")
        registered = registered_brokers(client)
        report = ClusterReport(registered, describe_every_topic(client))
        brokers, under_replicated = report.brokers(), report.under_replicated()
        rows: list[Row] = [report.summary(), *brokers, *under_replicated]
        for row in rows:
            out.row(row)
        out.line(report.line())
        out.table(report.BROKER_HEADS, brokers, title="Brokers")
        if under_replicated:
            out.table(report.PARTITION_HEADS, under_replicated, title="Partitions out of sync")


@subcommand(cluster, "unregister")
@option("--id", "The id of the broker.", kind=int)
def unregister(given: ParsedOptions) -> None:
    """Remove a broker that will not return from the cluster's metadata."""
    given.need("id")
    broker = given.number("id") or 0
    with session(given) as (client, out):
        unregister_broker(client, broker)
        out.result("broker", str(broker), "unregister")
        out.line(f"Broker {broker} is no longer registered.")
