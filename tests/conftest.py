"""Tests run on what is compiled, where it is; with BARNABAS_INTERPRETED=1 on the same source as plain Python.

Only in the process of the tests: a broker that they start is compiled if anything is.
"""

from __future__ import annotations

import os

from bench.interpreted import hide_compiled

if os.environ.get("BARNABAS_INTERPRETED"):
    hide_compiled()  # before any of our modules is imported
