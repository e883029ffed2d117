"""This broker's version, written down here and nowhere else: the distribution takes it from here.

(Asking the installed distribution would cost every start 40 ms.)
"""

from typing import Final

VERSION: Final = "0.1.0"
