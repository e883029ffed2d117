"""Log directories that pass back and forth between Apache Kafka and our storage engine, and their views of them."""
