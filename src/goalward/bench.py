"""The first name of `goalward.lab`."""

import sys

from goalward import lab

sys.modules[__name__] = lab
