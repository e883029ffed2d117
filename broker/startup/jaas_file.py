"""The static JAAS file of a broker: where its configuration or its environment names it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from barnabas.broker.security.jaas_entries import JaasFile
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_JAAS_CONFIG_FILE
from barnabas.config.keys import ConfigError
from barnabas.security.jaas import JaasError, file_in_java_options, parse_file

JAVA_OPTIONS: Final = "KAFKA_OPTS"
"""The variable by which users of Apache Kafka's scripts and image name the file."""


def read_jaas_file(config: BrokerConfig, environ: Mapping[str, str] | None = None) -> JaasFile | None:
    """The file of barnabas.jaas.config.file, or else of KAFKA_OPTS; None where neither names one. Raises ConfigError.

    `environ` are the environment variables, None for those of the process.
    """
    path, place = config[BARNABAS_JAAS_CONFIG_FILE], config.place(BARNABAS_JAAS_CONFIG_FILE)
    if not path:
        options = (os.environ if environ is None else environ).get(JAVA_OPTIONS, "")
        path, place = file_in_java_options(options), f"environment variable {JAVA_OPTIONS}"
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return JaasFile(parse_file(file.read()), path, place)
    except (OSError, UnicodeDecodeError, JaasError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        requirement = f"must be a JAAS file that can be read: {reason}"
        raise ConfigError(BARNABAS_JAAS_CONFIG_FILE.name, path, requirement, place) from None
