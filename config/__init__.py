"""Configuration: every key, declared once, and the layers that make the effective values.

keys.py           the definition of a key: type, default, validator, text, dynamic mode, and whether Barnabas acts on it
validators.py     the validators of values, with their requirements in words
values.py         text to value and back, by Apache Kafka's rules
catalogue/        every key of Apache Kafka 4.3 and our own, declared once
properties.py     the Java .properties reader
environment.py    the KAFKA_* variables of Apache Kafka's container image
profiles.py       dev, kafka, durable
broker_config.py  BrokerConfig: defaults < profile < file < environment < overrides, warnings and errors
log_config.py     LogConfig: the configuration of one topic's logs
describe.py       the entries of DescribeConfigs
reference.py      the generated reference in docs/configuration.md

The package imports nothing of ours and nothing heavy: `serve` loads all of it before it listens.
"""

if __name__ != "barnabas.config":  # from the root of a checkout; each module must be loaded only once
    raise ImportError(f"import barnabas.config instead of {__name__}")
