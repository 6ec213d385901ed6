"""What each role sees of each kind of dataset, written by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.streams.auth.roles_server import KINDS, ROLES

NAMES = list(ROLES.values())
KNOWN = [name for name in NAMES if name is not None]
SEE_ALL = {"aud", "olga", "root"}
ASKED = {"ana", "ben", "ana by eng", "ben by eng"}
MEMBERS = {"ana", "aud", "ben", "eng", "eve", "olga"}
# Decisions by the names of those who see no more than their own.
OWN = {
    "ana": {"ana", "ana by eng"},
    "ben": {"ben", "ben by eng"},
    "eng": {"ana by eng", "ben by eng"},
}


class Visible(NamedTuple):
    """What of a dataset is seen: everything asked, or one's own; and whose memberships."""

    asked: set[str]
    members: set[str]


def visible_to(name: str | None, dataset: str) -> Visible | None:
    """Return what somebody sees of a dataset, None for nothing."""
    if name is None:
        return None
    if name in SEE_ALL:
        return Visible(ASKED, MEMBERS)
    own = Visible(OWN.get(name, set()), {name} & MEMBERS)
    return {
        "closed-own": own if name in {"ana", "ben", "eng"} else None,
        "closed-all": Visible(ASKED, {name})
        if name in {"ana", "ben"}
        else own
        if name == "eng"
        else None,
        "open-own": own,
        "open-all": Visible(ASKED, own.members),
    }[dataset]


def label(decision: dict[str, Any]) -> str:
    """Return what a test calls a decision."""
    asked = decision.get("request", {})
    if "analyst" in asked:
        return asked["analyst"] + (f" by {asked['via']}" if "via" in asked else "")
    if "member" in decision:
        return f"member {decision['member']['member']}"
    return str(decision["outcome"])


def visible(name: str | None) -> set[str]:
    """Return the datasets of `KINDS`, and `elsewhere`, that somebody sees."""
    found = {dataset for dataset in KINDS if visible_to(name, dataset) is not None}
    return found | ({"elsewhere"} if name in {"otto", "olga", "root"} else set())


def status(name: str | None, dataset: str, otherwise: int = 404) -> int:
    if name is None:
        return 401
    return 200 if visible_to(name, dataset) is not None else otherwise
