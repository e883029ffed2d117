"""Barnabas, a message broker that speaks the Kafka wire protocol: the one name under which all of it is imported.

In a checkout the packages are links to the folders beside this one. With BARNABAS_INTERPRETED=1 in the environment
nothing compiled is loaded, by any command and in the processes that it starts.
"""

import os

if os.environ.get("BARNABAS_INTERPRETED"):
    from barnabas.interpreted import hide_compiled

    hide_compiled()
