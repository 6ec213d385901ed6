"""Which questions a source cannot answer: by its confirmed names and types, and what it has now.

Servers ask before a record is appended, and the process that reads data asks before it reads. A
source that answers nobody is refused in the same words whatever the cause, since a type, a name, or
a cell that cannot be read may depend on one person. The owner gets the cause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from accountant.errors import RequestInvalid
from accountant.questions import Question, Schema, check_question
from streams.answers.published_states import LackedColumn, PublishedState
from streams.errors import Refused
from streams.sources.confirmed_facts import Confirmed, ConfirmedFacts, changes_of
from streams.sources.present_facts import Look, PresentFacts
from streams.sources.schema_skeleton import skeleton_text
from streams.sources.source_facts import (
    REFUSED,
    UNCLEAN,
    FindingKind,
    SchemaFinding,
    SourceFacts,
    check_schema,
    is_clean,
)
from streams.sources.source_settings import SourceSettings, kind_of
from streams.sources.source_tables import SourceProblem
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_UNSAFE: Final[frozenset[FindingKind]] = frozenset({"inexact_unit"})
_MOST_CHANGES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRefusal:
    """Why a question is not run.

    Attributes:
        kind: `absent`: the file of sources has no such source; `lacks`: the confirmed source lacks
            what the question needs; `closed`: the source answers nobody now; `away`: the same, but
            it may pass; `unknown`: it is away, and nothing was ever confirmed. Callers cannot tell
            the last three from another.
        value: what it lacks, or the source.
        what: for whoever asks: the rule of the question where the source lacks something,
            otherwise a sentence.
        cause: for the owner and the log alone.
    """

    kind: Literal["absent", "lacks", "closed", "away", "unknown"]
    value: str
    what: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What is known of a source, for its owner.

    Attributes:
        confirmed: None while nothing is.
        present: None while it cannot be read.
        cause: why each question is refused, "" if not each is.
        is_away: the cause is the environment's.
    """

    confirmed: Confirmed | None = None
    present: SourceFacts | None = None
    cause: str = ""
    is_away: bool = False


class SourceStates:
    """Compares schemas with sources. Use it from any thread; it reads names and types alone.

    Args:
        sources: by name; the ones that are there when it is asked.
        is_unreadable: whether the present version of a schema's source is known to be.
    """

    def __init__(
        self,
        sources: Mapping[str, SourceSettings],
        confirmed: ConfirmedFacts,
        is_unreadable: Callable[[Schema], bool] = lambda _: False,
    ) -> None:
        self._sources = sources
        self._confirmed = confirmed
        self._is_unreadable = is_unreadable
        self._present = PresentFacts(sources)
        self._unwritten = dict[str, Confirmed]()
        self._closed = dict[Schema, str]()
        self._lock = threading.Lock()

    def refusal(self, question: Question, schema: Schema) -> QuestionRefusal | None:
        """Return why a question on a dataset's source is not run, None if it may.

        Args:
            schema: of a dataset that is open, and that may read the source.
        """
        try:
            checked = check_question(question, schema)
        except RequestInvalid:
            return None  # the ledger refuses it
        if wrong := self._wrong_source(schema):
            return wrong
        state = self.state(schema)
        if state.confirmed is not None:
            for finding in _refused(schema, state.confirmed):
                if finding.is_unit or finding.column in checked.column_names:
                    return lacks(schema.source.name, _lacked(finding), finding_words([finding]))
        if not state.cause:
            return None
        name = schema.source.name
        kind: Literal["closed", "away", "unknown"] = "closed"
        if state.is_away:
            kind = "unknown" if state.confirmed is None else "away"
        return QuestionRefusal(kind=kind, value=name, what=closed_words(name), cause=state.cause)

    def state(self, schema: Schema, *, again: bool = False) -> SourceState:
        """Return what is known of a schema's source.

        A source of which nothing is confirmed is confirmed now if it matches the schema.

        Args:
            schema: of a dataset that is open, and that may read the source.
            again: also look again at a source that no file tells of.
        """
        name = schema.source.name
        if wrong := self._wrong_source(schema):
            self._set_closed(schema, wrong.cause)
            return SourceState(cause=wrong.cause)
        state = self._state(name, self._present.look(name, again=again), schema)
        self._set_closed(schema, state.cause)
        return state

    def findings(self, schema: Schema) -> tuple[Sequence[SchemaFinding], str]:
        """Return what of a new schema does not match its source, and why nothing was compared."""
        if wrong := self._wrong_source(schema):
            return (), wrong.cause
        look = self._present.look(schema.source.name)
        if look.facts is None:
            return (), look.problem
        findings = check_schema(schema, look.facts)
        return [each for each in findings if each.kind in UNCLEAN], ""

    def skeleton(self, name: str) -> tuple[str, list[str]]:
        """Return the text of a schema on a source, to be filled in, and notes.

        Its names and types are for those who may open a dataset that may read it.

        Raises: SourceProblem: it cannot be read now.
        """
        settings, look = self._sources.get(name), self._present.look(name)
        if settings is None or look.facts is None:
            raise SourceProblem(look.problem)
        return skeleton_text(kind_of(settings), name, look.facts)

    def owner_words(self, schema: Schema) -> str:
        """Return what an owner should know of an open dataset's source, "" if it is as declared."""
        state, name = self.state(schema), schema.source.name
        if state.cause:
            why = f"No question on this dataset is answered: {state.cause}."
            return f"{why} If that is right, {_accept([name])}."
        lacking = [] if state.confirmed is None else _refused(schema, state.confirmed)
        if not lacking:
            return ""
        return f"Questions on what the source {name} lacks are refused: {finding_words(lacking)}."

    def note(self) -> str | None:
        """Return which sources answer nobody, as far as the last looks tell; it has no cause."""
        with self._lock:
            return note_of({schema.source.name for schema in self._closed})

    def published(self, dataset: str, schema: Schema, state: SourceState) -> PublishedState:
        """Return what servers without data may know of a state."""
        lacking = [] if state.confirmed is None else _refused(schema, state.confirmed)
        return PublishedState(
            dataset=dataset,
            source=schema.source.name,
            is_closed=state.cause != "",
            lacks=tuple(map(_lacked, lacking)),
        )

    def keep(self, schemas: Collection[Schema]) -> None:
        """Forget what is known of sources by other schemas: their datasets are closed."""
        with self._lock:
            self._closed = {each: why for each, why in self._closed.items() if each in schemas}

    def _set_closed(self, schema: Schema, cause: str) -> None:
        name = schema.source.name
        with self._lock:
            before = self._causes(name)
            self._closed.pop(schema, None)
            if cause:
                self._closed[schema] = cause
            after = self._causes(name)
        for new in after - before:
            _log.error(
                "source_closed", source=name, cause=new, do=f"if that is right, {_accept([name])}"
            )
        if before and not after:
            _log.info("source_open_again", source=name)

    def _causes(self, name: str) -> set[str]:
        return {why for each, why in self._closed.items() if each.source.name == name}

    def _wrong_source(self, schema: Schema) -> QuestionRefusal | None:
        name, kind = schema.source.name, schema.source.kind
        settings = self._sources.get(name)
        if settings is not None and kind_of(settings) == kind:
            return None
        what = (
            f"there is no source {name}"
            if settings is None
            else f"the source {name} is of kind {kind_of(settings)}, not {kind}"
        )
        rule = f"must be on a source of the file of sources, and {what} there"
        return QuestionRefusal(kind="absent", value=name, what=rule, cause=f"{what} in the file")

    def _state(self, name: str, look: Look, schema: Schema) -> SourceState:
        try:
            confirmed = self._confirmed.get(name) or self._unwritten.get(name)
            if confirmed is None:
                confirmed = self._confirm_if_clean(name, look.facts, schema)
        except Refused as error:
            return SourceState(present=look.facts, cause=str(error))
        cause = "" if look.is_passing and confirmed is not None else look.problem
        if not cause and confirmed is None:
            cause = "its names and types are not confirmed, and do not match each schema"
        elif look.facts is not None and confirmed is not None:
            found = changes_of(confirmed.facts, look.facts)
            if found:
                shown = "; ".join(map(str, found[:_MOST_CHANGES]))
                cause = f"its names and types are not those that were confirmed: {shown}"
            elif self._is_unreadable(schema):
                cause = "its present version cannot be read in full"
        return SourceState(
            confirmed=confirmed, present=look.facts, cause=cause, is_away=look.is_away
        )

    def _confirm_if_clean(
        self, name: str, facts: SourceFacts | None, schema: Schema
    ) -> Confirmed | None:
        """Confirm what a source has, if it matches a schema and nothing is confirmed.

        Raises: Refused: the file cannot be read.
        """
        if facts is None or not is_clean(check_schema(schema, facts)):
            return None
        try:
            return self._confirmed.confirm_first(name, facts)
        except Refused as error:
            self._confirmed.get(name)  # it can be read
            # The directory may be read-only: what worked before works on, until the next start.
            _log.warning("source_confirmed_until_restart", source=name, why=str(error))
            confirmed = Confirmed(by="check", columns=facts.columns)
            return self._unwritten.setdefault(name, confirmed)


def closed_words(name: str) -> str:
    """Return the words of a source that answers nobody for its analysts, whatever the cause."""
    return (
        f"the source {name} answers no question now, so this one was not decided, and nothing is "
        "charged. Whoever runs the server finds the cause in its log. If a changed name or type is "
        f"right, `accountant source confirm {name}` accepts it"
    )


def note_of(closed: Collection[str]) -> str | None:
    """Return the note for operators of sources that answer nobody, None without any."""
    if not closed:
        return None
    return (
        f"questions on the source {', '.join(sorted(closed))} are refused before they are charged. "
        "The log of the process that reads data has the cause, and `accountant source check "
        f"SCHEMA` shows what differs. If that is right, {_accept(sorted(closed))}"
    )


def finding_words(findings: Collection[SchemaFinding]) -> str:
    """Return findings for the owner."""
    return "; ".join(
        f"{'the unit' if each.is_unit else 'column'} `{each.column}`: {each.words}"
        + (f"; did you mean `{each.hint}`?{each.spellings}" if each.hint else "")
        for each in findings
    )


def _accept(names: Iterable[str]) -> str:
    commands = ", ".join(f"`accountant source confirm {name}`" for name in names)
    return f"{commands} accepts it at once, where the file of sources is"


def _refused(schema: Schema, confirmed: Confirmed) -> list[SchemaFinding]:
    """Return the findings by which no question on a column, or on any, has a useful answer."""
    # An owner may know that the unit's numbers are small. A check has compared another schema.
    kinds = REFUSED if confirmed.by == "owner" else REFUSED | _UNSAFE
    return [each for each in check_schema(schema, confirmed.facts) if each.kind in kinds]


_LACKS: Final[dict[str, str]] = {
    "absent": "is not there",
    "repeated": "is there several times, in whatever case",
    "all_missing": "has no cell that is read as the schema says",
    "inexact_unit": "does not name each person",
}


def lacks(source: str, lacked: LackedColumn, cause: str = "it was published") -> QuestionRefusal:
    """Return the refusal of a question that reads what a source lacks."""
    which = "the unit" if lacked.is_unit else "the column"
    rule = (
        f"must read what the source {source} has, and {which} {lacked.column} "
        f"{_LACKS.get(lacked.kind, 'is not there')} (`accountant source check SCHEMA` shows more)"
    )
    return QuestionRefusal(kind="lacks", value=lacked.column, what=rule, cause=cause)


def _lacked(finding: SchemaFinding) -> LackedColumn:
    return LackedColumn(column=finding.column, kind=finding.kind, is_unit=finding.is_unit)
