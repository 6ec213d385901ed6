"""The application behind the door: routes, limits, errors."""

from __future__ import annotations

import ipaddress
from typing import Final

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from prometheus_client import CollectorRegistry

from streams.gateway.context import Context
from streams.gateway.datasets import list_datasets, show_dataset, show_decision, show_usage
from streams.gateway.events import stream_events
from streams.gateway.monitoring import healthz, metrics, readyz
from streams.gateway.openapi import describe_bodies, openapi_config
from streams.gateway.page import page
from streams.gateway.problems import HANDLERS, problem
from streams.gateway.submit import amend_dataset, close_dataset, open_dataset, submit_request
from streams.metrics.registry import make_registry, version
from streams.service import Service
from streams.settings import Settings

_ROUTES: Final = [
    submit_request,
    open_dataset,
    amend_dataset,
    close_dataset,
    list_datasets,
    show_dataset,
    show_usage,
    show_decision,
    stream_events,
    healthz,
    readyz,
    metrics,
    page,
]


def create_app(
    service: Service, settings: Settings, *, registry: CollectorRegistry | None = None
) -> Litestar:
    """Return the door of a ledger; the caller keeps and closes the service.

    Args:
        registry: what /metrics shows; without it, only the process itself.
    """
    context = Context(service, settings, registry or make_registry(None))
    app = Litestar(
        route_handlers=_ROUTES,
        state=State({"context": context}),
        before_request=_check_host if is_loopback(settings.unauthenticated_bind) else None,
        exception_handlers=HANDLERS,
        openapi_config=openapi_config(version()),
        request_max_body_size=settings.most_body,
        logging_config=None,
    )
    describe_bodies(app)
    return app


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def _check_host(request: Request[None, None, State]) -> Response[bytes] | None:
    """Refuse a page whose own name was pointed at this machine: it is not the owner."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if is_loopback(name):
        return None
    rule = "must be localhost or a loopback address"
    return problem(421, "misdirected", f"host {rule}", field="host", rule=rule, value=host[:80])
