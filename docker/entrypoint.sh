#!/bin/sh
# entrypoint.sh serve [ARGS...]   the broker; takes /mnt/shared/config/server.properties when it is mounted, as Apache Kafka's image does
# entrypoint.sh healthy           succeeds while clients are served
# entrypoint.sh ANYTHING ELSE     barnabas ANYTHING ELSE
set -eu

properties=/mnt/shared/config/server.properties

case "${1:-serve}" in
  serve)
    [ $# -eq 0 ] || shift
    if [ $# -eq 0 ] && [ -f "$properties" ]; then
      set -- "$properties"
    fi
    exec barnabas serve "$@"
    ;;
  healthy)
    exec python -c 'import os, urllib.request as http
http.urlopen("http://127.0.0.1:%s/health/ready" % os.environ.get("KAFKA_BARNABAS_HTTP_PORT", "9644"), timeout=2)'
    ;;
  *)
    exec barnabas "$@"
    ;;
esac
