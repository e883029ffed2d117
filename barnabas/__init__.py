"""Barnabas, a message broker that speaks the Kafka wire protocol: the one name under which all of it is imported.

In a checkout the packages are links to the folders beside this one. With BARNABAS_INTERPRETED=1 in the environment
nothing compiled is loaded, by any command and in the processes that it starts. Nor is it where the build was
incomplete when the process began: a running process never mixes compiled and interpreted modules.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES

LIBRARY = f"barnabas__mypyc{EXTENSION_SUFFIXES[0]}"
"""The file beside this package that a build brings last."""

if os.environ.get("BARNABAS_INTERPRETED") or not os.path.exists(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), LIBRARY)
):
    from barnabas.interpreted import hide_compiled

    hide_compiled()
