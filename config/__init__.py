"""What can be configured: every key once, and the layers that make the effective values.

keys.py           what a key is: type, default, validator, text, dynamic mode, and whether Barnabas acts on it
validators.py     what a value must satisfy, with the words for it
values.py         text to value and back, by Apache Kafka's rules
catalogue/        every key of Apache Kafka 4.3 and our own, declared once
properties.py     the Java .properties reader
environment.py    the KAFKA_* variables of Apache Kafka's container image
profiles.py       dev, kafka, durable
broker_config.py  BrokerConfig: defaults < profile < file < environment < overrides, warnings and errors
log_config.py     LogConfig: what the logs of one topic obey
describe.py       what DescribeConfigs answers
reference.py      the generated reference in docs/configuration.md

The package imports nothing of ours and nothing heavy: `serve` loads all of it before it listens.
"""

if __name__ != "barnabas.config":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.config instead of {__name__}")
