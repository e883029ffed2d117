"""Log directories that go back and forth between Apache Kafka and our storage engine, and what each sees in them."""
