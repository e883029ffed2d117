"""The demonstration: a shop's week of orders and clicks, from a stock producer to tables, queries and a report."""
