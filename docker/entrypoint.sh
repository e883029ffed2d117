#!/bin/sh
# Starts the broker with what the container was given: arguments as for `barnabas serve`, KAFKA_* variables, and a
# server.properties where Apache Kafka's image looks for one.
#
# BARNABAS_ADD_SCRAM, or the file that BARNABAS_ADD_SCRAM_FILE names, has the first users, one a line:
# SCRAM-SHA-512=[name=admin,password=...]. They are made when the container starts on empty directories, and left alone
# afterwards. They reach the command by a pipe, and the broker does not keep the variable.
set -eu

mounted=/mnt/shared/config/server.properties
if [ "$#" -eq 0 ] && [ -f "$mounted" ]; then
    set -- "$mounted"
fi

first_users() {
    if [ -n "${BARNABAS_ADD_SCRAM_FILE:-}" ]; then
        cat "$BARNABAS_ADD_SCRAM_FILE"
    fi
    printf '%s\n' "${BARNABAS_ADD_SCRAM:-}"
}

# Formats with the file and the overrides among the arguments for `serve`.
format() {
    properties=/dev/null
    count=$#
    while [ "$count" -gt 0 ]; do
        word=$1
        shift
        count=$((count - 1))
        case $word in
        --override)
            set -- "$@" --override "$1"
            shift
            count=$((count - 1))
            ;;
        --override=*) set -- "$@" "$word" ;;
        -*) ;;
        *) properties=$word ;;
        esac
    done
    if [ -n "${CLUSTER_ID:-${KAFKA_CLUSTER_ID:-}}" ]; then
        set -- --cluster-id "${CLUSTER_ID:-$KAFKA_CLUSTER_ID}" "$@"
    else
        set -- --cluster-id "$(barnabas storage random-uuid)" --keep-cluster-id "$@"
    fi
    barnabas format --ignore-formatted --config "$properties" --add-scram-file - "$@"
}

if [ -n "${BARNABAS_ADD_SCRAM:-}${BARNABAS_ADD_SCRAM_FILE:-}" ]; then
    first_users >/dev/null # ends the start where the file cannot be read
    first_users | format "$@"
    unset BARNABAS_ADD_SCRAM
fi
exec barnabas serve "$@"
