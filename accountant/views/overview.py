"""All that a caller sees of one dataset, as its page and its command show it."""

from __future__ import annotations

import msgspec

from accountant.field_rules import Count
from accountant.records.members import Member, Role
from accountant.views.asks import AskView
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.pending import PendingView
from accountant.views.reservations import ReservationView
from accountant.views.why import Why


class CallerRoles(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may do and see on the dataset.

    Attributes:
        name: None where authentication is off: everybody sees all then.
        roles: those in force, by name.
        asks: whether the caller may send requests as an analyst.
        sees_all: every decision and member.
        sees_requests: what everybody has asked.
    """

    name: str | None
    roles: tuple[Role, ...]
    asks: bool
    sees_all: bool
    sees_requests: bool


class RecentRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The latest requests that the caller sees, the newest first: everybody's, or their own.

    Attributes:
        decisions: as servers answer them.
        steps: the last step of a reservation among them, by the number of its `reserved`.
        remarks: owners' latest remarks on each of them, by its number, the newest first.
        read: how many of the dataset's decisions were read for them.
        is_whole: there are no older ones.
        archived: older ones are in an archive of the log.
        trouble: why they cannot be read now; "" where nothing is wrong.
    """

    decisions: tuple[msgspec.Raw, ...] = ()
    steps: dict[int, msgspec.Raw] = {}
    remarks: dict[int, tuple[msgspec.Raw, ...]] = {}
    read: Count = 0
    is_whole: bool = False
    archived: bool = False
    trouble: str = ""


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one analyst, of one day or with one purpose.

    Attributes:
        key: the analyst, the day `2026-11-23` in UTC, or the purpose (any text, also none).
        granted, refused: how many requests; a batch is one.
        spent: exact sum of what the grants cost, in the budget's additive sum.
    """

    key: str
    granted: int
    refused: int
    spent: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """One dataset as the caller sees it: each part as its own route would show it.

    Attributes:
        members: all to those who see all, else the caller's own.
        limits: all to those who see all, else none. `budget`: the caller's own, where they ask.
        reservations: open ones, the oldest first and at most 51: all to those who see all, else
            the caller's own.
        pending: requests that wait for approval, likewise.
        asks: for more, with their answers: all to those who see all, else the caller's own.
        why: what used the budget, and how much longer it lasts; None while it is not known.
        analysts, days, purposes: usage, in the order of the keys; None for a caller who does not
            see what everybody has asked.
        trouble: why `why` and usage cannot be read now; "" where nothing is wrong.
    """

    dataset: DatasetView
    caller: CallerRoles
    members: tuple[Member, ...]
    limits: tuple[ScopeView, ...]
    budget: AnalystBudget | None
    requests: RecentRequests
    why: Why | None = None
    analysts: tuple[UsageSum, ...] | None = None
    days: tuple[UsageSum, ...] | None = None
    purposes: tuple[UsageSum, ...] | None = None
    trouble: str = ""
    reservations: tuple[ReservationView, ...] = ()
    pending: tuple[PendingView, ...] = ()
    asks: tuple[AskView, ...] = ()


decode_overview = msgspec.json.Decoder(Overview).decode
