"""One scripted history on a fresh Apache Kafka and on a fresh Barnabas, by every admin client, and its answers."""
