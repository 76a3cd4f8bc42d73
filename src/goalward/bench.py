"""The first name of `goalward.lab`."""

import sys
from typing import TYPE_CHECKING

from goalward import lab

if TYPE_CHECKING:
    from goalward.lab import *  # noqa: F403

sys.modules[__name__] = lab
