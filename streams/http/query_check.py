"""The check of a query: a parameter that its route does not have is a slip.

A misspelt `after` would read the first page again, and a misspelt `analyst` everybody's questions.
"""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.datastructures import State
from litestar.params import QueryParameter

from accountant.suggest import did_you_mean
from streams.http.host_header import Check, host_check
from streams.http.problems import problem
from streams.settings import Settings

_MAX_SHOWN = 80


def host_and_query_check(settings: Settings) -> Check:
    """Return the checks before each request of routes that declare their parameters.

    Pages read the query themselves, and a provider adds parameters to it. Probes and scrapers send
    parameters of their own to the monitoring routes, which have none.
    """
    check_host = host_check(settings)

    async def check(request: Request[None, None, State]) -> Response[bytes] | None:
        refused = None if check_host is None else await check_host(request)
        return _check_query(request) if refused is None else refused

    return check


def _check_query(request: Request[Any, Any, Any]) -> Response[bytes] | None:
    """Refuse a query with a parameter that the route does not have."""
    if not request.url.query:
        return None
    known = [
        each.kwarg_definition.name or argument
        for argument, each in request.route_handler.parsed_fn_signature.parameters.items()
        if isinstance(each.kwarg_definition, QueryParameter)
    ]
    unknown = next((each for each in request.query_params if each not in known), None)
    if unknown is None:
        return None
    shown = unknown[:_MAX_SHOWN]
    if not known:
        rule = "is no parameter: this address has none, so leave it out"
    else:
        meant = did_you_mean(unknown, known)()
        rule = f"is no parameter of this address: use {', '.join(known)}"
        rule += f"; {meant}" if meant else ""
    return problem(400, "invalid_query", f"{shown} {rule}", field=shown, rule=rule)
