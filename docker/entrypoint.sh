#!/bin/sh
# Starts the broker with what the container was given: arguments as for `barnabas serve`, KAFKA_* variables, and a
# server.properties where Apache Kafka's image looks for one.
set -eu

mounted=/mnt/shared/config/server.properties
if [ "$#" -eq 0 ] && [ -f "$mounted" ]; then
    set -- "$mounted"
fi
exec barnabas serve "$@"
