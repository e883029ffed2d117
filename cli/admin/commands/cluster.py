"""`barnabas cluster`: kafka-cluster."""

from __future__ import annotations

from typing import Any

import click

from barnabas.cli.admin.calls.cluster import describe_cluster, unregister_broker
from barnabas.cli.admin.options import (
    AdminCommand,
    Given,
    admin_group,
    connection_options,
    flag,
    option,
    session,
)
from barnabas.cli.admin.shapes import ClusterRow, NodeRow


@admin_group("cluster", short_help="Show the cluster's id and nodes; unregister a broker.")
def cluster() -> None:
    """Show the cluster's id and its brokers or controllers, and unregister a broker: kafka-cluster.

    \b
    barnabas cluster list-endpoints --bootstrap-server localhost:9092
    """


@cluster.command("cluster-id", cls=AdminCommand)
@connection_options(controller=True)
@click.pass_context
def cluster_id(ctx: click.Context, /, **values: Any) -> None:
    """Show the id of the cluster."""
    with session(Given.below(ctx, values)) as (client, out):
        found = describe_cluster(client).cluster_id
        out.row(ClusterRow(found))
        out.line(f"Cluster ID: {found}")


@cluster.command("list-endpoints", cls=AdminCommand)
@connection_options(controller=True)
@flag("--include-fenced-brokers", "Include brokers that are registered and fenced.")
@click.pass_context
def list_endpoints(ctx: click.Context, /, **values: Any) -> None:
    """Show the endpoints of the brokers; with --bootstrap-controller, of the controllers."""
    given = Given.below(ctx, values)
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


@cluster.command("unregister", cls=AdminCommand)
@connection_options(controller=True)
@option("--id", "The id of the broker.", kind=int)
@click.pass_context
def unregister(ctx: click.Context, /, **values: Any) -> None:
    """Remove a broker that will not return from the cluster's metadata."""
    given = Given.below(ctx, values)
    given.need("id")
    broker = given.number("id") or 0
    with session(given) as (client, out):
        unregister_broker(client, broker)
        out.result("broker", str(broker), "unregister")
        out.line(f"Broker {broker} is no longer registered.")
