"""Claims: what a mechanism promises, and what that costs."""

from __future__ import annotations

from accountant.claims.checks import CheckedClaim as CheckedClaim
from accountant.claims.checks import checked as checked
from accountant.claims.claims import *  # noqa: F403 - each claim is named once, in its module
