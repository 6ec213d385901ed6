"""Public exceptions survive pickling, so a process pool can return them."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Response

import accountant
import streams
from accountant.answers import Granted, failed_answer
from accountant.claims.text import parse_claim
from accountant.errors import MadeByNewerVersion, RequestInvalid
from accountant.questions import parse_noise
from accountant.questions.statistics import CountQuestion
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from streams.client import (
    Accountant,
    AnswerFailed,
    NotGranted,
    NotYetAnswered,
    PolicyDiffers,
    Reply,
    Unanswered,
    UsedAfterFork,
)
from streams.client.requests.requests import Undecided
from streams.client.unconfirmed import (
    EndsJointGuarantee,
    SecondDataset,
    SimilarDataset,
    SimilarName,
    SmallerLimit,
    SourceDiffers,
    TakesFromLifetime,
    Unconfirmed,
)
from streams.engines.diffprivlib import NotAdmitted
from streams.errors import Gone, Unavailable
from streams.http.problems import HTTPProblem
from streams.kafka.service.answers import ChainBroken
from streams.kafka.wire.diagnose_auth import ConnectionDenied
from streams.pages.dataset.many_forms import NotAllSent
from tests.every_case import every_case

ID = "019ab000-0000-7000-8000-000000000000"


def _modules() -> Iterator[Any]:
    for package in (accountant, streams):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def _public() -> list[type[Exception]]:
    found = {
        each
        for module in _modules()
        for each in vars(module).values()
        if inspect.isclass(each)
        and issubclass(each, Exception)
        and each.__module__ == module.__name__
        and not each.__name__.startswith("_")
    }
    return sorted(found, key=lambda each: (each.__module__, each.__name__))


def _refusal() -> Reply:
    with tempfile.TemporaryDirectory() as kept, Accountant(f"sqlite:///{kept}/ledger.db") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
        return ledger.ask("census", "pure:3", analyst="ana")


def _granted() -> Granted:
    return Granted(
        dataset="census",
        request_id=ID,
        analyst="ana",
        grant="sha256:" + "0" * 64,
        question=CountQuestion(),
        noise=parse_noise("epsilon: 1"),
        claim=parse_claim("pure:1"),
    )


# With the arguments that their constructors take where that is more than a message.
MADE: dict[type[BaseException], Callable[[], BaseException]] = {
    MadeByNewerVersion: lambda: MadeByNewerVersion("rules", 9, 5),
    RequestInvalid: lambda: RequestInvalid(
        "claim.sigma", "must be > 0", "x" * 200, hint=lambda: "write 1"
    ).under("request"),
    Undecodable: lambda: Undecodable(Reason.OVERSIZE, "too long"),
    NotGranted: lambda: NotGranted(_refusal(), then="ask less"),
    SimilarDataset: lambda: SimilarDataset("dataset", "cenus", "census", "it is nearly census"),
    SecondDataset: lambda: SecondDataset("dataset", "again", "", "it was not opened"),
    SimilarName: lambda: SimilarName("team", "Red", "red", "it is nearly red"),
    SmallerLimit: lambda: SmallerLimit("part", "0.1", "", "this is less than before"),
    SourceDiffers: lambda: SourceDiffers("schema", "Age", "", "its source has no such column"),
    EndsJointGuarantee: lambda: EndsJointGuarantee("policy.population", "x", "", "it would end"),
    TakesFromLifetime: lambda: TakesFromLifetime("policy.population", "x", "", "it takes"),
    Unconfirmed: lambda: Unconfirmed("dataset", "a", "", "it is a slip"),
    PolicyDiffers: lambda: PolicyDiffers("census", {"epsilon": ("1", "2")}, b"{}"),
    NotAdmitted: lambda: NotAdmitted(_refusal()),
    Unanswered: lambda: Unanswered("no answer", "; ask again", ID),
    Undecided: lambda: Undecided("not decided", "; ask again", ID),
    NotYetAnswered: lambda: NotYetAnswered("census", ID, 60.0),
    AnswerFailed: lambda: AnswerFailed(failed_answer(_granted())),
    UsedAfterFork: lambda: UsedAfterFork(4711),
    Unavailable: lambda: Unavailable("busy", after=2.5),
    ChainBroken: lambda: ChainBroken("cut", partition=3),
    Gone: lambda: Gone("archived", after=12),
    ConnectionDenied: lambda: ConnectionDenied("the password is wrong"),
    HTTPProblem: lambda: HTTPProblem(Response(b"{}", status_code=422)),
    NotAllSent: lambda: NotAllSent("lines", "line 2: is refused", ""),
}


def _parts(value: Any) -> Any:
    """Return the parts of an error that equal errors share, recursively."""
    if isinstance(value, BaseException):
        return type(value), value.args, str(value), _parts(vars(value))
    if isinstance(value, dict):
        return {key: _parts(each) for key, each in value.items() if key != "_hint"}
    if isinstance(value, Response):
        return type(value), value.content, value.status_code
    return value


@every_case("kind", _public)
def test_a_public_exception_is_the_same_after_pickle_and_copy(kind: type[Exception]) -> None:
    error = MADE[kind]() if kind in MADE else kind("what happened")
    error.add_note("request_id of the run")
    error.request_id = ID  # type: ignore[attr-defined]
    # The framework's answers, which only the server raises, have no form before protocol 2.
    oldest = 2 if kind.__name__ == "HTTPProblem" else 0
    for protocol in range(oldest, pickle.HIGHEST_PROTOCOL + 1):
        assert _parts(pickle.loads(pickle.dumps(error, protocol))) == _parts(error)
    assert _parts(copy.copy(error)) == _parts(error)
    assert _parts(copy.deepcopy(error)) == _parts(error)
    twice = pickle.loads(pickle.dumps(copy.copy(error)))
    assert _parts(twice) == _parts(error)
    assert twice.__notes__ == ["request_id of the run"]


def _ask_too_much(url: str) -> None:
    with Accountant(url, analyst="ana") as ledger, ledger.grant("census", "pure:3"):
        pass


def _ask_wrongly(url: str) -> None:
    with Accountant(url, analyst="ana") as ledger:
        ledger.ask("census", {"type": "pure_dp", "epsilon": 0.1 + 0.2})


def test_a_process_pool_raises_the_workers_exception(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Accountant(url) as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(NotGranted) as raised:
            pool.map_async(_ask_too_much, [url]).get(timeout=60)
        assert (raised.value.reason, raised.value.fits) == ("exhausted", "pure:1")
        with pytest.raises(RequestInvalid):
            pool.map_async(_ask_wrongly, [url]).get(timeout=60)
