"""`barnabas cluster`: kafka-cluster."""

from __future__ import annotations

from barnabas.cli.admin.calls.cluster import describe_cluster, unregister_broker
from barnabas.cli.admin.options import (
    ParsedOptions,
    admin_group,
    flag,
    option,
    session,
    subcommand,
)
from barnabas.cli.admin.shapes import ClusterRow, NodeRow


@admin_group("cluster", short_help="Show the cluster's id and nodes; unregister a broker.")
def cluster() -> None:
    """Show the cluster's id and its brokers or controllers, and unregister a broker: kafka-cluster.

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
