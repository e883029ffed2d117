"""Whether the broker of this container is ready: exit code 0, else 1 and the reason.

The port is that of KAFKA_BARNABAS_HTTP_PORT. It may speak HTTPS, whose certificate has the names by which others reach
the container: it is not checked on the way to oneself. The page asks for no login.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 10
"""The engine gives up earlier; see HEALTHCHECK in the Dockerfile."""


def reason_against(scheme: str, port: str) -> str | None:
    """Why the broker is not ready; None when it is. Raises OSError where the port does not speak this."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        page = f"{scheme}://127.0.0.1:{port}/health/ready"
        with urllib.request.urlopen(page, timeout=TIMEOUT_S, context=context):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode(errors="replace").strip()


def main() -> str | None:
    port = os.environ.get("KAFKA_BARNABAS_HTTP_PORT", "9644")
    try:
        return reason_against("http", port)
    except OSError:
        pass  # HTTPS, or nobody
    try:
        return reason_against("https", port)
    except OSError as error:
        return f"no broker answers on port {port}: {error}"


if __name__ == "__main__":
    sys.exit(main())
