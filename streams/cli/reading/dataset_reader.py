"""Reads datasets for commands from any ledger; a ledger's file is opened read-only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from accountant.suggest import did_you_mean
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail
from streams.cli.reading.connect import settings_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from accountant.claims import Claim
    from accountant.display.current_dataset import CurrentDataset
    from accountant.display.limits import Whole
    from accountant.records import Decision
    from accountant.records.members import Member
    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import ScopeView
    from streams.client import Accountant, Me

T = TypeVar("T")

_LATEST = 60  # decisions among which the last grant is looked for


def reader(url: str, token_file: Path | None = None) -> Accountant:
    """Return a read-only client of the ledger at an address; a file is not locked.

    Raises: AddressInvalid, Unavailable, NoSuchLedger, Refused.
    """
    from streams.client import Accountant

    return Accountant(settings=settings_for(url, token_file), read_only=True)


def find_dataset(ledger: Accountant, name: str) -> DatasetView | None:
    """Return one dataset, None if it was never opened."""
    from accountant.records.names import is_name
    from streams.client import UnknownDataset

    if is_name(name):
        with suppress(UnknownDataset):
            return ledger.dataset(name)
    return None


def get_dataset(ledger: Accountant, name: str) -> DatasetView:
    """Return one dataset; end the command if it was never opened."""
    found = find_dataset(ledger, name)
    if found is None:
        fail_unknown_dataset(name, dataset_names(ledger), perhaps_hidden(ledger))
    return found


def read_beside(ledger: Accountant, dataset: str) -> str:
    """Return what is spent of epsilon alone, see `beside_words`; "" where it cannot be read."""
    from accountant.display.spending import beside_words
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        view = find_dataset(ledger, dataset)
        return "" if view is None else beside_words(view)
    return ""


def dataset_names(ledger: Accountant) -> list[str]:
    """Return the names of the datasets that the caller may see, none if they cannot be read."""
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        return [view.dataset for view in ledger.datasets()]
    return []


def perhaps_hidden(ledger: Accountant) -> str:
    """Return that a dataset may also be hidden from the caller, "" if none is hidden."""
    return "" if not ledger.token_source else hidden_words(ledger.me())


def hidden_words(caller: Me) -> str:
    """Return that a dataset may also be hidden from a caller, "" if none is hidden."""
    if caller.name is None or caller.administrator:
        return ""
    return f", or you have no role on it; you are signed in as {caller.name}"


def fail_unknown_dataset(name: str, known: Iterable[str], hidden: str = "") -> NoReturn:
    """End the command for a dataset that was never opened, or is hidden.

    The words are those of the server's own error, the same in both cases.

    Args:
        known: names of datasets, for a suggestion.
        hidden: see `hidden_words`.
    """
    meant = did_you_mean(name, known)()
    suggestion = f"; {meant}" if meant else ""
    which = "the datasets that you may see" if hidden else "all datasets"
    hint = f"`accountant dataset list` shows {which}"
    fail(Exit.FAILED, f"dataset {name} was never opened{hidden}{suggestion}", hint=hint)


def suggest_name(ledger: Accountant, decision: Decision) -> str | None:
    """Return `did you mean X?` if a decision is refused for a name that nothing has."""
    from accountant.records.outcomes import Reason
    from streams.cli.printing.tables import request_of

    dataset, request = decision.dataset, request_of(decision)
    if dataset is None:
        return None
    name, known = dataset, list[str]()
    if decision.reason is Reason.UNKNOWN_DATASET:
        known = dataset_names(ledger)
    elif decision.reason is Reason.UNKNOWN_MEMBER:
        name = str(request.get("member", ""))
        known = [each.member for each in limits_and_members(ledger, dataset)[1]]
    elif decision.reason is Reason.UNKNOWN_LIMIT:
        name, scope = str(request.get("name", "")), request.get("scope")
        limits, _ = limits_and_members(ledger, dataset)
        known = [each.name for each in limits if each.name and each.scope == scope]
    return did_you_mean(name, known)() or None


def refusal_of(ledger: Accountant, decision: Decision) -> str:
    """Return why an owner's record is refused, compared with the dataset as it is now.

    "" without a reason.
    """
    from accountant.display.refusals import refusal_words
    from accountant.errors import BudgetError
    from accountant.records.outcomes import Reason

    of_population = (Reason.OUTSIDE_LIFETIME, Reason.POPULATION_IN_USE)
    if decision.reason in of_population and (why := _why_outside(ledger, decision)):
        return why
    current = None
    if decision.reason is not None and decision.dataset is not None:
        with suppress(BudgetError):
            view = with_joint_guarantee(ledger.dataset(decision.dataset), ledger)
            current = current_dataset(ledger, view, *limits_and_members(ledger, view.dataset))
    return refusal_words(decision, current=current)


def first_refusal(ledger: Accountant, repeat: Decision, analyst: str | None) -> str:
    """Return why the request of a repeat was refused at first, "" where that is not known.

    Args:
        analyst: its name, None for the caller's own.
    """
    from accountant.errors import BudgetError
    from streams.cli.printing.tables import id_of

    name, request_id = analyst or ledger.me().name, id_of(repeat)
    if repeat.first is None or repeat.first.granted or not name or not request_id:
        return ""
    with suppress(BudgetError):
        found = ledger.decision(str(repeat.dataset), name, request_id)
        return "" if found is None or found.reason is None else refusal_of(ledger, found)
    return ""


def _why_outside(ledger: Accountant, decision: Decision) -> str:
    """Return why a population refused an opening, "" where the reader does not see it."""
    from accountant.errors import BudgetError
    from accountant.records.inputs import check
    from accountant.records.requests import Open
    from accountant.views.opening_refusals import who_may_open, why_outside

    with suppress(BudgetError):
        record = check("admin", bytes(decision.request)).body
        views = ledger.datasets()
        if isinstance(record, Open):
            seen = with_joint_guarantees(views, views, ledger)
            why = why_outside(record, seen) or who_may_open(record, seen)
            return why and f"Dataset {record.dataset} was not opened: {why}."
    return ""


def current_dataset(
    ledger: Accountant, view: DatasetView, limits: list[ScopeView], members: list[Member]
) -> CurrentDataset:
    """Return what explains a refusal on a dataset, beside its decision."""
    from accountant.display.current_dataset import CurrentDataset

    return CurrentDataset(
        view, limits, members, pause_of(ledger, view), needs_name=not ledger.token_source
    )


def pause_of(ledger: Accountant, view: DatasetView) -> Decision | None:
    """Return the decision that has paused a dataset, None if there is none or it is unknown."""
    return ledger.last_pause(view.dataset) if view.paused else None


def visible_members(ledger: Accountant, dataset: str) -> list[Member]:
    """Return the members of a dataset that the caller may see."""
    return _shown(ledger.members, dataset)


def visible_limits(ledger: Accountant, dataset: str) -> list[ScopeView]:
    """Return the limits of a dataset that the caller may see."""
    return _shown(ledger.limits, dataset)


def limits_and_members(ledger: Accountant, dataset: str) -> tuple[list[ScopeView], list[Member]]:
    """Return limits and members, to warn of mistakes; none if they cannot be read."""
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        return ledger.limits(dataset), ledger.members(dataset)
    return [], []


def limits_are_parts_of(ledger: Accountant, dataset: str) -> Whole:
    """Return what a dataset's limits are parts of; the budget if it cannot be read."""
    from accountant.display.limits import whole_of_limits
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        return whole_of_limits(ledger.dataset(dataset))
    return "budget"


def _shown(read: Callable[[str], list[T]], dataset: str) -> list[T]:
    from streams.errors import NotPermitted

    with suppress(NotPermitted):
        return read(dataset)
    return []


def last_granted_claim(ledger: Accountant, view: DatasetView) -> Claim | None:
    """Return the claim of the last grant among a dataset's latest decisions, None without one."""
    from accountant.errors import BudgetError
    from accountant.records.request_names import claim_of

    claim = None
    with suppress(BudgetError):  # they are archived, or the caller may not see them
        for decision in ledger.requests(view.dataset, after=max(0, view.sequence - _LATEST)):
            if decision.granted:
                claim = claim_of(decision)
    return claim


def find_decision(ledger: Accountant, dataset: str, number: int) -> Decision | None:
    """Return a decision by its number in the dataset, None where it cannot be read."""
    from accountant.errors import BudgetError

    if number < 1:
        return None
    with suppress(BudgetError):  # it is in an archive, or the caller may not see it
        found = next(ledger.requests(dataset, after=number - 1), None)
        return found if found is not None and found.sequence == number else None
    return None


def with_joint_guarantee(view: DatasetView, ledger: Accountant) -> DatasetView:
    """Return a dataset with what it promises together with others, if there are any.

    A server sends the joint guarantee along; otherwise this reads all other datasets.
    """
    from accountant.views.population import is_alone

    if is_alone(view) or view.joint_guarantee:
        return view
    return with_joint_guarantees([view], ledger.datasets(), ledger)[0]


def read_void(ledger: Accountant, dataset: str) -> str:
    """Return that a dataset guarantees nothing, see `void_sentence`; "" where it cannot be read."""
    from accountant.display.datasets import void_sentence
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        view = find_dataset(ledger, dataset)
        return "" if view is None else void_sentence(with_joint_guarantee(view, ledger))
    return ""


def void_datasets(ledger: Accountant, every: Sequence[DatasetView]) -> dict[str, str]:
    """Return which of all datasets guarantee nothing, with their `void_sentence`."""
    from accountant.display.datasets import void_sentence
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        views = with_joint_guarantees(every, every, ledger)
        return {view.dataset: said for view in views if (said := void_sentence(view))}
    return {}


def warn_if_void(ledger: Accountant, decision: Decision) -> None:
    """Warn of a grant on a dataset that guarantees nothing: no theorem covers what it releases."""
    from streams.cli.printing.say import say

    if decision.granted and (said := read_void(ledger, str(decision.dataset))):
        say(f"warning: {said}", err=True)


def policy_notes(ledger: Accountant, dataset: str, decision: Decision) -> list[str]:
    """Return what an owner should know of a policy that was opened, renewed or amended.

    What it has taken of a lifetime, that an approval never applies, and that the dataset guarantees
    nothing any more.
    """
    from accountant.display.approvals import idle_approval
    from accountant.display.datasets import lifetime_words

    view = find_dataset(ledger, dataset) if decision.outcome.is_applied else None
    if view is None:
        return []
    words = lifetime_words(view) if decision.outcome.opens else ""
    taken = words and f"its lifetime is {words}"
    idle = idle_approval(view.policy)
    said = read_void(ledger, dataset)
    return [each for each in (taken, idle and f"a request {idle}", said) if each]


def with_joint_guarantees(
    shown: Sequence[DatasetView], every: Sequence[DatasetView], ledger: Accountant
) -> Sequence[DatasetView]:
    """Return datasets with joint guarantees.

    A server's own are used first: it also counts datasets that it hides from the caller.

    Args:
        ledger: the source of `every`.
    """
    from accountant.views.population import is_alone, with_joint

    is_known = any(view.joint_guarantee for view in shown)
    if is_known or all(map(is_alone, shown)):
        return shown
    return with_joint(shown, every, ordered=ledger.ordered_before())
