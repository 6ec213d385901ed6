"""Claims: what a mechanism promises, and what that costs."""

from __future__ import annotations

from accountant.claims.checks import CheckedClaim as CheckedClaim
from accountant.claims.checks import check_claim as check_claim
from accountant.claims.claims import *  # noqa: F403 - each claim is named once, in its module
