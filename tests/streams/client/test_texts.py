"""Every text argument must be a `str`, or the call is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import numpy as np
import opendp.prelude as dp
import pytest

from accountant.errors import RequestInvalid
from accountant.policy import Policy
from accountant.records.coerce import coerce_policy
from streams.client import Accountant, AsyncAccountant, AsyncOwner, Owner
from tests.examples_of_records import CALLS as EXAMPLES
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

NO_TEXTS: Final[list[Any]] = [
    b"ana",
    bytearray(b"ana"),
    np.bytes_(b"ana"),
    dt.date(2026, 11, 25),
    dt.datetime(2026, 11, 25, tzinfo=dt.UTC),
    Decimal("0.5"),
    5,
    True,
    b"",
    0,
    ["ana"],
    "\ud800",
]
dp.enable_features("contrib")
_RECORDS: Final = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
MEASUREMENT: Final = dp.t.make_count(*_RECORDS) >> dp.m.then_laplace(scale=1000.0)
VALID: Final[dict[str, Any]] = {
    **{name: value for each in EXAMPLES.values() for name, value in each.arguments.items()},
    "dataset": "census",
    "name": "census",
    "claim": "pure:0.001",
    "question": "count",
    "column": "age",
    "fraction": "0.5",
    "most": 1,
    "run": lambda: 1,
    "measurement": MEASUREMENT,
    "data": [0] * 10,
    "d_in": 1,
    "analyst": "ana",
    "purpose": "counts",
    "reason": "a second report",
    "unit": "person",
    "neighbours": "add_remove",
    "via": "engine",
    "policy": {"filter": "basic", "epsilon": "1"},
    "by": "owner",
    "after": 0,
}
MORE: Final[dict[tuple[str, str], Any]] = {
    ("set_limit", "name"): "ana",
    ("set_limit", "part"): "0.5",
    ("remove_limit", "name"): "ana",
    ("set_limit", "policy"): None,
    ("set_member", "until"): "2027-01-01",
    ("reserve", "until"): "P1D",
    ("amend", "policy"): None,
    ("amend", "horizon"): "P365D",
    ("amend", "access"): "members",
    ("amend", "visibility"): "own",
}
TAKES: Final[dict[str, tuple[type, ...]]] = {
    "dataset": (list,),  # of several names
    "until": (dt.date,),
    "released_at": (dt.date,),
    "owners": (list,),
    "roles": (list,),
    "pace": (list,),
    "store": (object,),  # a path
    "policy": (object,),  # its fields: see below
}
"""Types beside `str` that a parameter takes."""


def _has_text(hint: Any) -> bool:
    if hint is str or (get_origin(hint) is typing.Literal and isinstance(get_args(hint)[0], str)):
        return True
    return any(_has_text(each) for each in get_args(hint) if not isinstance(each, list))


def _texts(client: type) -> list[tuple[str, str]]:
    """Return each text parameter of each public call, with the name of the call."""
    found = []
    for name, call in inspect.getmembers(client, callable):
        if name.startswith("_"):
            continue
        hints = typing.get_type_hints(inspect.unwrap(call))
        names = inspect.signature(call).parameters
        found += [(name, each) for each in names if _has_text(hints.get(each))]
    return found


IN_ITS_RESULT: Final = "ask_many"
"""This call returns the error of each request instead of raising it: see `test_ask_many`."""
CALLS: Final = [
    (kind, call, parameter)
    for kind in (Accountant, AsyncAccountant, Owner, AsyncOwner)
    for call, parameter in _texts(kind)
    if call != IN_ITS_RESULT
]


@pytest.mark.parametrize("requests", ["ana", b"ana", bytearray(b"ana"), {"dataset": "x"}, 5, None])
def test_ask_many_refuses_what_is_no_list(file: Path, requests: Any) -> None:
    with Accountant(f"sqlite:///{file}") as client:
        client.as_owner("owner").open("census", {"filter": "basic", "epsilon": 1})
        with pytest.raises(RequestInvalid, match="requests must be a list of requests"):
            client.ask_many(requests)
        (found,) = client.ask_many([5])
        assert isinstance(found, RequestInvalid)


def test_every_public_call_is_tested() -> None:
    names = {call for _, call, _ in CALLS}
    assert {"ask", "grant", "release", "cost", "as_owner", "as_administrator", "why"} <= names
    assert names >= EXAMPLES.keys()
    assert len(CALLS) > 150


def _arguments(
    kind: type, call: str, parameter: str, value: Any, clock: TestClock
) -> dict[str, Any]:
    """Return the arguments of a call that is sound but for one of them."""
    arguments: dict[str, Any] = {}
    for name, each in inspect.signature(getattr(kind, call)).parameters.items():
        fallback = VALID.get(name) if each.default is each.empty else None
        found = MORE.get((call, name), fallback)
        if found is not None:
            arguments[name] = found
        elif name == "request_id" and each.default is each.empty:
            arguments[name] = new_id(clock)
    for name in {"by", "analyst"} & inspect.signature(getattr(kind, call)).parameters.keys():
        arguments[name] = VALID[name]
    arguments[parameter] = value
    return arguments


def _wrong_for(kind: type, call: str, parameter: str) -> list[Any]:
    hint = typing.get_type_hints(inspect.unwrap(getattr(kind, call)))[parameter]
    wrong = [each for each in NO_TEXTS if not isinstance(each, TAKES.get(parameter, ()))]
    if parameter in {"owners", "roles"}:
        return [*wrong, *([each] for each in NO_TEXTS)]
    if parameter == "pace":
        return [*wrong, *(("0.01", each) for each in NO_TEXTS)]
    assert _has_text(hint)
    return wrong


def _made(caller: Accountant | Owner, call: str, arguments: dict[str, Any]) -> None:
    answer = getattr(caller, call)(**arguments)
    if call == "released":
        answer = answer(lambda: 1)()
    if call == "grant":
        with answer:
            pass
    if isinstance(answer, Iterator):
        list(answer)


async def _awaited(
    caller: AsyncAccountant | AsyncOwner, call: str, arguments: dict[str, Any]
) -> None:
    answer = getattr(caller, call)(**arguments)
    if call == "released":

        async def run() -> int:
            return 1

        answer = answer(run)()
    if call == "grant":
        async with answer:
            return
    if isinstance(answer, AsyncIterator):
        async for _ in answer:
            pass
    elif inspect.isawaitable(answer):
        await answer


def _refused(url: str, clock: TestClock) -> None:
    async def awaited() -> None:
        async with AsyncAccountant(url, clock=clock) as client:
            callers = {AsyncAccountant: client, AsyncOwner: client.as_owner("owner")}
            for kind, call, parameter in CALLS:
                if kind in callers:
                    for value in _wrong_for(kind, call, parameter):
                        arguments = _arguments(kind, call, parameter, value, clock)
                        with _refusal(call, parameter, value):
                            await _awaited(callers[kind], call, arguments)

    with Accountant(url, clock=clock) as client:
        heads = [each.head for each in client.heads()]
        callers = {Accountant: client, Owner: client.as_owner("owner")}
        for kind, call, parameter in CALLS:
            if kind in callers:
                for value in _wrong_for(kind, call, parameter):
                    arguments = _arguments(kind, call, parameter, value, clock)
                    with _refusal(call, parameter, value):
                        _made(callers[kind], call, arguments)
        asyncio.run(awaited())
        assert [each.head for each in client.heads()] == heads


class _refusal:  # noqa: N801 - reads as a context
    """Expects RequestInvalid, and names the call where it does not come."""

    def __init__(self, call: str, parameter: str, value: Any) -> None:
        self._what = f"{call}({parameter}={value!r})"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: object) -> bool:
        assert kind is not None, f"{self._what} is taken"
        assert issubclass(kind, RequestInvalid), f"{self._what} raises {error!r}"
        return True


def test_no_call_accepts_a_non_string_in_process(file: Path, clock: TestClock) -> None:
    url = f"sqlite:///{file}"
    with Accountant(url, clock=clock) as client:
        client.as_owner("owner").open("census", {"filter": "basic", "epsilon": 1})
        _refused(url, clock)


def test_no_call_accepts_a_non_string_through_a_server(
    server: LocalServer, clock: TestClock
) -> None:
    _refused(server.url, clock)


@pytest.mark.parametrize("made", [Accountant, AsyncAccountant])
@pytest.mark.parametrize("field", ["analyst", "via"])
def test_no_client_accepts_a_non_string(file: Path, made: Callable[..., Any], field: str) -> None:
    for value in NO_TEXTS:
        with pytest.raises(RequestInvalid, match=field):
            made(f"sqlite:///{file}", **{field: value})


def test_text_fields_of_a_policy_take_no_numbers() -> None:
    texts = {"filter", "unit", "neighbours", "horizon", "beside", "access", "visibility"}
    amounts = set(Policy.__struct_fields__) - texts - {"population"}
    for name in Policy.__struct_fields__:
        for value in NO_TEXTS:
            if name in amounts and not isinstance(value, bytes | bytearray | dt.date):
                continue
            with pytest.raises(RequestInvalid, match=name):
                coerce_policy({name: value})


def test_a_subclass_of_str_is_sent(file: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock) as client:
        client.as_owner("owner").open(
            np.str_("census"), {"filter": np.str_("basic"), "epsilon": "1"}
        )
        reply = client.ask(np.str_("census"), np.str_("pure:0.1"), analyst=np.str_("ana"))
        assert reply.granted
        assert client.dataset(np.str_("census")) is not None
