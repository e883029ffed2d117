"""The queries over the tables: plain Spark SQL over the views orders, clicks, and the quarantine of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES: Final = {
    "hours": """
        select topic, unix_seconds(date_trunc('HOUR', timestamp)) as hour, count(*) as records
        from (select topic, timestamp from orders union all select topic, timestamp from clicks)
        group by all order by hour, topic""",
    "revenue": """
        select day, data.country as country, sum(data.total_cents) / 100 as revenue
        from orders where data.status = 'paid' group by all order by day, country""",
    "funnel": """
        select step, sessions from (
            select data.step as step, count(distinct key) as sessions from clicks group by all
            union all
            select data.status, count(distinct key) from orders group by all)
        order by sessions desc""",
    "products": """
        select item.name as product, sum(item.quantity) as sold, sum(item.quantity * item.price_cents) / 100 as revenue
        from orders lateral view explode(data.items) as item
        where data.status = 'paid' group by all order by revenue desc""",
    "open_orders": """
        select status, count(*) as orders from (
            select max_by(data.status, struct(timestamp, offset)) as status from orders group by key)
        group by all order by orders desc""",
    "sources": """
        select cast(header.value as string) as source, count(*) as records
        from orders lateral view explode(headers) as header
        where header.key = 'source' group by all order by records desc""",
    "quarantine": """
        select topic, reason, count(*) as records, first(detail) as example from quarantine
        group by all order by records desc""",
    "offsets": """
        select topic, partition, count(*) as records, min(offset) as first, max(offset) as last,
            count(distinct offset) as distinct_offsets from (
            select topic, partition, offset from orders
            union all select topic, partition, offset from clicks
            union all select topic, partition, offset from quarantine)
        group by all order by topic, partition""",
}

Answers = dict[str, list[dict[str, Any]]]


def ask(spark: SparkSession) -> Answers:
    """The rows of each query, by its name."""
    return {
        name: [row.asDict(recursive=True) for row in spark.sql(query).collect()]
        for name, query in QUERIES.items()
    }
