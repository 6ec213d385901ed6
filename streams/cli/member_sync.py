"""`accountant member sync`: make a dataset's members equal to a file."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accountant.display.teams import notes_of_members
from accountant.errors import BudgetError
from accountant.likeness import most_alike
from accountant.times import from_iso
from accountant.views.confirmations import confirmation_words, known_teams, similar_team
from accountant.views.member_changes import Change, member_changes
from streams.cli.admin_command import AdminOptions
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail
from streams.cli.printing.members import change_table, count_words
from streams.cli.printing.output import print_json, progress, stdout
from streams.cli.printing.say import say
from streams.cli.printing.signals import SignalsRaise
from streams.cli.printing.tables import explain, verdict
from streams.cli.reading.connect import settings_for
from streams.cli.reading.dataset_reader import fail_unknown_dataset, hidden_words
from streams.cli.reading.member_file import read_members
from streams.client import AsyncAccountant, SimilarName, UnknownDataset
from streams.clock import SystemClock

if TYPE_CHECKING:
    from accountant.records import Decision
    from accountant.records.members import Member
    from accountant.views.limit_views import ScopeView
    from streams.client import AsyncAdministrator, Call

_AT_ONCE: Final = 64
"""Requests in flight at a time: those that arrive together share a commit."""


class Sync(NamedTuple):
    """Makes a dataset's members equal to those of a file."""

    dataset: str
    file: Path
    admin: AdminOptions

    def run(self, *, dry_run: bool, new: bool) -> None:
        """Show the changes and make them; end the command at the first refusal.

        Args:
            new: teams are meant, although they are nearly others.
        """
        now = SystemClock().now()
        listed = read_members(self.file)
        wanted = [each for each in listed if each.until is None or from_iso(each.until) > now]
        if len(wanted) < len(listed) and not self.admin.json:
            say(f"{len(listed) - len(wanted):,} expired members of the file are left out")
        sent = _SyncProgress()
        with SignalsRaise() as signals:
            try:
                asyncio.run(self._run(wanted, sent, dry_run=dry_run, new=new))
            except KeyboardInterrupt:
                signals.hold()
                sent.name_unanswered()
                raise

    async def _run(
        self, wanted: Sequence[Any], sent: _SyncProgress, *, dry_run: bool, new: bool
    ) -> None:
        admin = self.admin
        settings = settings_for(admin.url, admin.token_file)
        async with AsyncAccountant(settings=settings, wait=admin.wait) as ledger:
            try:
                await ledger.dataset(self.dataset)
            except UnknownDataset:
                hidden = hidden_words(await ledger.me()) if ledger.token_source else ""
                known = [view.dataset for view in await ledger.datasets()]
                fail_unknown_dataset(self.dataset, known, hidden)
            name = (await ledger.me()).name if ledger.token_source else None
            own = admin.by or name or "owner"
            before = await ledger.members(self.dataset)
            steps = member_changes(before, wanted, own=own)
            changes = [change for step in steps for change in step]
            self._show(changes, dry_run=dry_run)
            limits = await self._limits(ledger)
            if not self.admin.json:
                self._note_teams(limits, wanted, changes)
            if not new:
                _check_teams(self.dataset, limits, before, wanted)
            if not self.admin.json and any(_leaves(change, own) for change in changes):
                say(f"warning: this makes you ({own}) no longer an owner of {self.dataset}")
            if dry_run or not steps:
                return
            sent.all = sum(map(len, steps))
            with progress() as bars:
                task = bars.add_task("setting members", total=sent.all)
                for step in steps:
                    await self._send(ledger, step, own, sent, lambda: bars.advance(task))
                    if sent.has_stopped:
                        break
        self._end(sent)

    def _show(self, changes: Sequence[Change], *, dry_run: bool) -> None:
        if self.admin.json:
            for change in changes:
                print_json({"change": change.kind, "before": change.before, "after": change.after})
            return
        if not changes:
            say(f"the members of {self.dataset} equal {self.file}: nothing to change")
            return
        stdout().print(change_table(changes))
        more = "; this was a dry run, nothing was written" if dry_run else ""
        say(f"{self.dataset}: {count_words(changes)}{more}")

    async def _limits(self, ledger: AsyncAccountant) -> Sequence[ScopeView]:
        with suppress(BudgetError):  # perhaps the caller may not set members: the log says so
            return await ledger.limits(self.dataset)
        return []

    def _note_teams(
        self, limits: Sequence[ScopeView], wanted: Sequence[Any], changes: Sequence[Change]
    ) -> None:
        """Print a note for each team that no limit and no other member names."""
        changed = [
            change.after
            for change in changes
            if change.after.roles
            and (change.before is None or change.before.team != change.after.team)
        ]
        for note in notes_of_members(limits, wanted, self.dataset, changed):
            say(f"note: {note}", err=True)

    async def _send(
        self,
        ledger: AsyncAccountant,
        step: Sequence[Change],
        by: str,
        sent: _SyncProgress,
        advance: Callable[[], None],
    ) -> None:
        """Make the changes of one step, until one is refused."""
        left = iter(step)
        # One owner at a time: the last one must not be removed.
        leaves = [change.before for change in step if change.before is not None]
        alone = any("owner" in member.roles for member in leaves)
        administers = self.admin.as_administrator
        as_caller = ledger.as_administrator if administers else ledger.as_owner

        async def worker() -> None:
            for change in _until_refused(left, sent):
                request_id = ledger.new_request_id()
                sent.unanswered[request_id] = change
                try:
                    caller = as_caller(by, **self.admin.terms(request_id))
                    decision = await self._set_member(caller, change.after)
                except BudgetError as error:
                    sent.error = sent.error or error
                    return
                del sent.unanswered[request_id]
                sent.take(change, decision)
                advance()

        async with asyncio.TaskGroup() as group:
            for _ in range(1 if alone else min(_AT_ONCE, len(step))):
                group.create_task(worker())

    def _set_member(self, caller: AsyncAdministrator, member: Member) -> Call[Decision]:
        if not member.roles:
            return caller.remove_member(self.dataset, member.member)
        # `_check_teams` has compared all teams.
        return caller.set_member(
            self.dataset,
            member.member,
            roles=member.roles,
            team=member.team,
            until=member.until,
            new=True,
        )

    def _end(self, sent: _SyncProgress) -> None:
        if sent.error is not None:
            sent.name_unanswered()
            say(
                f"stopped after {sent.made:,} of {sent.all:,} changes; run the same command again "
                "to continue",
                err=True,
            )
            raise sent.error
        if sent.refused is None:
            if not self.admin.json:
                say(f"done: {sent.made:,} of {sent.all:,}")
            return
        change, decision = sent.refused
        for line in explain(decision):
            stdout().print(line, soft_wrap=True)
        fail(
            Exit.FAILED,
            f"stopped at {change.after.member}, after {sent.made:,} of {sent.all:,} changes",
            hint="correct the cause, then run the same command again: it continues from here",
        )


class _SyncProgress:
    """Counts the changes of a sync, and records why it stopped.

    Attributes:
        all, made: the number of changes, and of those that were made.
        unanswered: the changes that were sent without a decision so far, by their ids.
        refused: the first refused change, with its decision.
        error: the first error without a decision.
    """

    def __init__(self) -> None:
        self.all = 0
        self.made = 0
        self.unanswered: dict[str, Change] = {}
        self.refused: tuple[Change, Decision] | None = None
        self.error: BudgetError | None = None

    @property
    def has_stopped(self) -> bool:
        """Whether the sync sends no more changes."""
        return self.refused is not None or self.error is not None

    def name_unanswered(self) -> None:
        """Name the requests that may have been decided, to stderr."""
        for request_id, change in self.unanswered.items():
            say(f"request {request_id} ({change.after.member}) may have been decided", err=True)
        if self.unanswered:
            say("run the same command again: it makes only what is still to change", err=True)

    def take(self, change: Change, decision: Decision) -> None:
        """Record the outcome of a change."""
        if verdict(decision)[0].is_applied:
            self.made += 1
        elif self.refused is None:
            self.refused = change, decision


def _check_teams(
    dataset: str, limits: Sequence[ScopeView], before: Sequence[Member], wanted: Sequence[Any]
) -> None:
    """Check that no new team is nearly one of a limit or of another member.

    Args:
        before, wanted: all members before the changes, and after them.
    Raises: SimilarName.
    """
    teams = known_teams(wanted, limits)
    sizes = Counter(each.team for each in wanted)
    # The misspelt one of two new teams has probably fewer members.
    for team in sorted(teams - known_teams(before, limits), key=lambda each: (sizes[each], each)):
        if similar := most_alike(team, teams - {team}):
            asked = similar_team(dataset, team, similar)
            raise SimilarName(asked.field, team, similar, confirmation_words([asked]))


def _leaves(change: Change, name: str) -> bool:
    """Tell whether a change removes the role of owner from a member."""
    was = change.before is not None and "owner" in change.before.roles
    return was and change.after.member == name and "owner" not in change.after.roles


def _until_refused(changes: Iterator[Change], sent: _SyncProgress) -> Iterator[Change]:
    for change in changes:
        yield change
        if sent.has_stopped:
            return
