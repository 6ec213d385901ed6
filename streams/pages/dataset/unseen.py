"""A dataset that the viewer does not see: the same page as for one that was never opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar import Response

from accountant.errors import RequestInvalid
from streams.auth.authorization import check_may_send
from streams.auth.principal import optional_principal
from streams.auth.unknown_dataset import closest_dataset
from streams.auth.visibility import visibility_of
from streams.gateway.asks import passed_on_words, with_nonce
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.http.context import HttpRequest, context_of
from streams.pages.dataset import form_data
from streams.pages.dataset.form_data import FormData, SentForm
from streams.pages.flash import Message
from streams.pages.ids import new_id
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import render_page


async def dataset_not_found(
    request: HttpRequest,
    dataset: str,
    *,
    form: FormData | None = None,
    flash: Message | None = None,
    status: int = 404,
) -> Response[Any]:
    """Return the page for a dataset that was never opened, or that the viewer may not see.

    Args:
        form: the ask for access as it was sent, to be corrected.
    """
    caller = visibility_of(request).caller
    # From an administrator nothing is hidden: there is no such dataset.
    if form is None and caller is not None and not caller.is_administrator:
        now = context_of(request).clock.now()
        form = form_data.blank_form(form_data.MORE, new_id(now), role="analyst")
    values: dict[str, Any] = {
        "dataset": dataset[:100],
        "meant": await closest_dataset(request, dataset),
        "page_url": dataset_address(dataset[:100]),
        "more_form": form,
        "flash": flash,
    }
    return render_page(request, "dataset/not_found.html", status=status, **values)


async def ask_unseen(
    request: HttpRequest, dataset: str, fields: Mapping[str, str]
) -> Response[Any]:
    """Ask the owners of a dataset that the viewer does not see, if there is one, for access.

    The page that follows is the same whatever was decided, and whether there is such a dataset.

    Raises: HTTPProblem, Unavailable.
    """
    caller = optional_principal(request)
    if caller is None:
        return await dataset_not_found(request, dataset)
    form = form_data.parse_form(form_data.MORE, {**fields, "wants": "access"})
    try:
        record = form_data.ask_record(SentForm(form, dataset, caller.name))
    except RequestInvalid as error:
        wrong = form_data.with_error(form, error)
        return await dataset_not_found(request, dataset, form=wrong, status=422)
    await check_may_send(request, record.checked.body)
    service = visibility_of(request).service
    checked, body = with_nonce(request, record.checked, record.body)
    await service.submit("admin", body, wait=DEFAULT_WAIT_S, checked=checked)
    flash = Message("done", "Passed on", f"{passed_on_words(dataset)}.")
    return await dataset_not_found(request, dataset, flash=flash, status=200)
