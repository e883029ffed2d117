"""The admin commands, one module each. Flags, refusals and meaning are those of Apache Kafka's tools."""
