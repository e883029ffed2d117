"""This broker's version, from which the distribution takes its own.

(Reading it from the installed distribution would cost every start 40 ms.)
"""

from typing import Final

VERSION: Final = "0.1.0"
