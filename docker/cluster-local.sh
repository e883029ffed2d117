#!/usr/bin/env bash
# Starts a cluster on this machine, without containers: three controllers and one broker of Apache Kafka, and two brokers
# of Barnabas, all on 127.0.0.1. Ctrl-C stops it.
#
#   docker/cluster-local.sh [--directory DIR] [--port PORT] [--kafka DIR]
#
#   --directory DIR   where the nodes keep their data and their output. It stays, and the next start with it resumes the
#                     same cluster. Default: a temporary directory, which is removed at the end
#   --port PORT       the first of eight ports: brokers 1 to 3, controllers 101 to 103, then the metrics of the two
#                     brokers of Barnabas. Default: 9092
#   --kafka DIR       an unpacked Apache Kafka 4. Default: its jars in build/, where Maven puts them the first time
#   --help            prints this text
#
# Needs Java 17 or newer, 2 GiB of memory, and a Python that has Barnabas: the one that PYTHON names, else .venv, which
# `make test` sets up, else python3. Without --kafka it also needs Maven, and that Python needs pytest.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$PWD
directory=
port=9092
kafka=
START_LIMIT_S=120
STOP_LIMIT_S=60

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }
fail() {
  echo "cluster-local: $*" >&2
  exit 1
}
wrong() {
  usage >&2
  exit 2
}

while [[ $# -gt 0 ]]; do
  [[ $1 != --help && $1 != -h ]] || { usage; exit 0; }
  [[ $# -ge 2 ]] || wrong
  case $1 in
    --directory) directory=$2 ;;
    --port) port=$2 ;;
    --kafka) kafka=$2 ;;
    *) wrong ;;
  esac
  shift 2
done
[[ $port =~ ^[0-9]{1,5}$ && $port -ge 1 && $port -le 65528 ]] || fail "--port $port cannot be the first of eight ports"

# ---- the programs

cd "$root"
unset CLUSTER_ID "${!KAFKA_@}" # which Barnabas would follow
python=${PYTHON:-}
[[ -n $python || ! -x .venv/bin/python ]] || python=.venv/bin/python
python=${python:-python3}
barnabas() { "$python" -m barnabas.cli "$@"; }

find_jars='
import sys
try:
    from tests.conformance.kafka_jars import KafkaMissingError, classpath
except ImportError as error:
    sys.exit(str(error))
try:
    print(classpath())
except KafkaMissingError as error:
    sys.exit(str(error))
'
barnabas --version > /dev/null 2>&1 \
  || fail "$python cannot run Barnabas: \`make test\` sets up .venv, or PYTHON=... names another Python"
command -v java > /dev/null || fail "Java 17 or newer is needed, and there is no java on the path"
if [[ -n $kafka ]]; then
  [[ $kafka = /* ]] || kafka=$here/$kafka
  [[ -d $kafka/libs ]] || fail "--kafka $kafka: it has no folder libs"
  classpath="$kafka/libs/*"
else
  echo "looking for the jars of Apache Kafka; Maven copies them to build/ the first time"
  classpath=$("$python" -c "$find_jars") || fail "there are no jars of Apache Kafka; --kafka DIR names an unpacked one"
fi

# ---- the nodes

brokers=(1 2 3) # 1 is Apache Kafka's
controllers=(101 102 103)
address() { # NODE
  case $1 in
    10?) echo "127.0.0.1:$((port + 3 + $1 - 101))" ;;
    *) echo "127.0.0.1:$((port + $1 - 1))" ;;
  esac
}
metrics_port() { echo "$((port + 4 + $1))"; } # NODE
joined() {
  local IFS=,
  echo "$*"
}
bootstrap=$(joined "$(address 1)" "$(address 2)" "$(address 3)")
quorum=$(joined "$(address 101)" "$(address 102)" "$(address 103)")

settings() { # NODE: its server.properties
  cat << PROPERTIES
node.id=$1
controller.quorum.bootstrap.servers=$quorum
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$directory/node-$1/data
default.replication.factor=3
min.insync.replicas=2
PROPERTIES
  case $1 in
    10?) printf '%s\n' process.roles=controller "listeners=CONTROLLER://$(address "$1")" ;;
    *) printf '%s\n' process.roles=broker "listeners=PLAINTEXT://$(address "$1")" ;;
  esac
  case $1 in 2 | 3) echo "barnabas.http.port=$(metrics_port "$1")" ;; esac
}

# The controllers are formatted with the same voters and feature levels, and broker 1 with the same cluster id. The
# brokers of Barnabas format themselves: they ask a controller for the id.
format_nodes() {
  local cluster node voters=()
  cluster=$(barnabas storage random-uuid)
  for node in "${controllers[@]}"; do
    voters+=("$node@$(address "$node"):$(barnabas storage random-uuid)")
  done
  for node in "${controllers[@]}"; do
    format "$node" --cluster-id "$cluster" --initial-controllers "$(joined "${voters[@]}")" \
      --feature share.version=0 --feature streams.version=0
  done
  format 1 --cluster-id "$cluster"
  echo "$port" > "$directory/formatted"
}
format() { # NODE WORD...
  local home=$directory/node-$1
  rm -rf "$home/data" # what an interrupted format has left
  "${jvm[@]}" -Xmx256m kafka.tools.StorageTool format --config "$home/server.properties" "${@:2}" > "$home/format.log" 2>&1 \
    || fail "formatting node $1 failed: $(tail -n 3 "$home/format.log")"
}

started=() # the ids of the nodes that run
pids=()    # and the ids of their processes
start() {  # NODE COMMAND...
  set -m # a process group of its own: Ctrl-C reaches this script alone, which then stops the nodes in order
  "${@:2}" > "$directory/node-$1/server.log" 2>&1 < /dev/null &
  disown $!
  set +m
  started+=("$1")
  pids+=($!)
}

runs() { kill -0 "$1" 2> /dev/null; }
notice_ended() { # reports the nodes that have ended by themselves, once each; its status is 1 where there are any
  local index status=0
  for index in "${!pids[@]}"; do
    if ! runs "${pids[index]}"; then
      echo "node ${started[index]} has ended, see $directory/node-${started[index]}/server.log" >&2
      unset "pids[index]" "started[index]"
      status=1
    fi
  done
  return $status
}
count_unfenced() {
  barnabas cluster --bootstrap-server "$bootstrap" --command-config "$directory/client.properties" --json describe 2> /dev/null \
    | grep -c '"state": *"unfenced"'
}

# ---- the end

signal() { # SIGNAL NODE...: its status is 1 where none of the nodes runs
  local index status=1
  for index in "${!pids[@]}"; do
    if [[ " ${*:2} " == *" ${started[index]} "* ]] && kill -s "$1" "${pids[index]}" 2> /dev/null; then status=0; fi
  done
  return $status
}
stop() { # NODE...
  local deadline=$((SECONDS + STOP_LIMIT_S))
  signal TERM "$@" || return 0
  while signal 0 "$@"; do
    if [[ $SECONDS -ge $deadline ]]; then signal KILL "$@" || true; fi
    sleep 0.2
  done
}
finish() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [[ ${#pids[@]} -gt 0 ]]; then
    echo "stopping the brokers, then the controllers"
    stop "${brokers[@]}"
    stop "${controllers[@]}"
  fi
  if [[ -n $temporary && $status -eq 0 ]]; then rm -rf "$temporary"; fi
  exit "$status"
}

# ---- the life of the cluster

for ((number = port; number < port + 8; number++)); do
  ! (exec 3<> "/dev/tcp/127.0.0.1/$number") 2> /dev/null || fail "port $number is taken; --port names the first of eight others"
done
temporary=
if [[ -z $directory ]]; then
  temporary=$(mktemp -d "${TMPDIR:-/tmp}/barnabas-cluster.XXXXXX")
  directory=$temporary
fi
[[ $directory = /* ]] || directory=$here/$directory
mkdir -p "$directory"
formatted_for=$(cat "$directory/formatted" 2> /dev/null || true)
[[ ${formatted_for:-$port} = "$port" ]] || fail "the controllers in $directory know each other by the ports of --port $formatted_for"
trap finish EXIT
trap 'exit 0' INT TERM HUP

# These flags suit JVMs that start quickly and do little.
jvm=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$directory/log4j2.properties" -cp "$classpath")
printf '%s\n' rootLogger.level=INFO rootLogger.appenderRef.out.ref=out appender.out.type=Console appender.out.name=out \
  appender.out.layout.type=PatternLayout 'appender.out.layout.pattern=[%d] %p %m (%c)%n' > "$directory/log4j2.properties"
printf '%s\n' default.api.timeout.ms=3000 request.timeout.ms=2000 > "$directory/client.properties"
for node in "${controllers[@]}" "${brokers[@]}"; do
  mkdir -p "$directory/node-$node"
  settings "$node" > "$directory/node-$node/server.properties"
done
if [[ ! -e $directory/formatted ]]; then
  echo "formatting the directories of the nodes in $directory"
  format_nodes
fi

echo "starting three controllers and three brokers"
for node in "${controllers[@]}" "${brokers[@]}"; do
  case $node in
    10?) start "$node" "${jvm[@]}" -Xmx256m kafka.Kafka "$directory/node-$node/server.properties" ;;
    1) start "$node" "${jvm[@]}" -Xmx512m kafka.Kafka "$directory/node-$node/server.properties" ;;
    *) start "$node" "$python" -m barnabas.cli serve "$directory/node-$node/server.properties" ;;
  esac
done
deadline=$((SECONDS + START_LIMIT_S))
until [[ $(count_unfenced) -eq 3 ]]; do
  notice_ended || fail "the cluster did not start; $directory stays"
  [[ $SECONDS -lt $deadline ]] || fail "the cluster did not start within $START_LIMIT_S s; $directory stays"
  sleep 0.5
done

for index in "${!started[@]}"; do
  node=${started[index]}
  case $node in
    10?) what="a controller of Apache Kafka" ;;
    1) what="a broker of Apache Kafka" ;;
    *) what="a broker of Barnabas, metrics on http://127.0.0.1:$(metrics_port "$node")/metrics" ;;
  esac
  echo "node $node at $(address "$node"), process ${pids[index]}: $what"
done
echo "data and output of the nodes: $directory/node-*"
echo "the cluster is ready, and Ctrl-C stops it"
echo "bootstrap.servers=$bootstrap"
while true; do
  notice_ended || true
  sleep 1 &
  wait "$!" # which a signal ends at once
done
