"""Barnabas, a message broker that speaks the Kafka wire protocol: what is installed has this one name."""
