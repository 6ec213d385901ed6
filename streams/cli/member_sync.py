"""`accountant member sync`: a dataset's members become those of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accountant.errors import BudgetError
from accountant.records.outcomes import Outcome
from accountant.times import from_iso
from accountant.views.member_changes import Change, member_changes
from streams.cli.admin_command import AdminOptions
from streams.cli.printing.exits import Exit, fail
from streams.cli.printing.members import change_table, count_words
from streams.cli.printing.output import print_json, progress, stdout
from streams.cli.printing.say import say
from streams.cli.printing.tables import explain, verdict
from streams.cli.reading.connected import settings_for
from streams.cli.reading.dataset_reader import fail_unopened
from streams.cli.reading.member_file import members_in
from streams.client import AsyncAccountant
from streams.clock import SystemClock

if TYPE_CHECKING:
    from accountant.records import Decision

_AT_ONCE: Final = 64
"""Records that are under way together: they share a commit."""
_DONE: Final = frozenset({Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED})


class Sync(NamedTuple):
    """What is to become of a dataset's members, and where."""

    dataset: str
    file: Path
    admin: AdminOptions
    as_administrator: bool

    def run(self, *, dry_run: bool) -> None:
        """Show what is to change, and change it; end the command at the first refusal."""
        now = SystemClock().now()
        listed = members_in(self.file)
        wanted = [each for each in listed if each.until is None or from_iso(each.until) > now]
        if len(wanted) < len(listed) and not self.admin.json:
            say(f"{len(listed) - len(wanted):,} of the file are left out: their time is over")
        asyncio.run(self._run(wanted, dry_run=dry_run))

    async def _run(self, wanted: Sequence[Any], *, dry_run: bool) -> None:
        admin = self.admin
        settings = settings_for(admin.url, admin.token_file)
        async with AsyncAccountant(settings=settings, wait=admin.wait) as ledger:
            if await ledger.dataset(self.dataset) is None:
                fail_unopened(self.dataset)
            name = (await ledger.me()).name if ledger.shows_token else None
            own = admin.by or name or "owner"
            steps = member_changes(await ledger.members(self.dataset), wanted, own=own)
            changes = [change for step in steps for change in step]
            self._show(changes, dry_run=dry_run)
            if not self.admin.json and any(_leaves(change, own) for change in changes):
                say(f"{own}, who runs this, is no owner of {self.dataset} from then on")
            if dry_run or not steps:
                return
            sent = _Sent(sum(map(len, steps)))
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
            say(f"the members of {self.dataset} are those of {self.file}: nothing to change")
            return
        stdout().print(change_table(changes))
        more = "; a dry run, nothing is written" if dry_run else ""
        say(f"{self.dataset}: {count_words(changes)}{more}")

    async def _send(
        self,
        ledger: AsyncAccountant,
        step: Sequence[Change],
        by: str,
        sent: _Sent,
        advance: Callable[[], None],
    ) -> None:
        """Make the changes of one step, until one is refused."""
        left = iter(step)
        # Owners go one by one: each may be the last that is allowed to.
        leaves = [change.before for change in step if change.before is not None]
        alone = any("owner" in member.roles for member in leaves)

        async def worker() -> None:
            for change in _until_refused(left, sent):
                after = change.after
                try:
                    decision = await ledger.set_member(
                        self.dataset,
                        after.member,
                        roles=after.roles,
                        team=after.team,
                        until=after.until,
                        as_administrator=self.as_administrator,
                        by=by,
                        reason=self.admin.reason,
                        wait=self.admin.wait,
                    )
                except BudgetError as error:
                    sent.error = sent.error or error
                    return
                sent.take(change, decision)
                advance()

        async with asyncio.TaskGroup() as group:
            for _ in range(1 if alone else min(_AT_ONCE, len(step))):
                group.create_task(worker())

    def _end(self, sent: _Sent) -> None:
        if sent.error is not None:
            say(
                f"stopped after {sent.made:,} of {sent.all:,} changes; the same command goes on "
                "from there",
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
            hint="the same command again, once that is mended: it goes on from here",
        )


class _Sent:
    """How far a sync has come.

    Attributes:
        all, made: how many changes there are, and how many were made.
        refused: the first that was not, with its decision.
        error: what has ended it without a decision.
    """

    def __init__(self, changes: int) -> None:
        self.all = changes
        self.made = 0
        self.refused: tuple[Change, Decision] | None = None
        self.error: BudgetError | None = None

    @property
    def has_stopped(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.refused is not None or self.error is not None

    def take(self, change: Change, decision: Decision) -> None:
        """Take in what became of a change."""
        if verdict(decision)[0] in _DONE:
            self.made += 1
        elif self.refused is None:
            self.refused = change, decision


def _leaves(change: Change, name: str) -> bool:
    """Tell whether a change takes the role of owner from somebody."""
    was = change.before is not None and "owner" in change.before.roles
    return was and change.after.member == name and "owner" not in change.after.roles


def _until_refused(changes: Iterator[Change], sent: _Sent) -> Iterator[Change]:
    for change in changes:
        yield change
        if sent.has_stopped:
            return
