"""Every configuration key of Apache Kafka 4.3, and Barnabas's own, declared once."""
