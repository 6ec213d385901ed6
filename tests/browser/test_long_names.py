"""No page scrolls sideways on a phone, whatever is named with a hundred characters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Opens
from tests.browser.page_checks import overflow, sign_in
from tests.streams.gateway.records import pausing, request
from tests.streams.pages.dataset.pages_server import PagesServer

PHONE = 390
SCHEMES = ("light", "dark")


def long(letter: str) -> str:
    """Return a name of a hundred characters without a place to break it."""
    return letter * 100


DATASET, ANALYST, TEAM, ENGINE = long("d"), long("a"), long("t"), long("e")
POPULATION, PURPOSE, REASON, OWNER = long("p"), long("u") * 2, long("r") * 2, long("o")


class LongNames(PagesServer):
    """A dataset of which each name has a hundred characters, also those of who uses it."""

    def __init__(self, directory: Path, **more: Any) -> None:
        from streams.auth import token_file
        from tests.streams.auth.token_server import wall

        super().__init__(directory, **more)
        for name in (ANALYST, ENGINE, OWNER):
            self.tokens[name] = token_file.create(self.tokens_file, name, now=wall()).token

    def furnish(self) -> None:
        policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "population": POPULATION}
        for dataset in (DATASET, long("f")):
            self.open_for_olga(dataset, access="members", unit=long("i"), **policy)
            self.enrol(dataset, OWNER, "owner")
            self.enrol(dataset, ANALYST, "analyst", team=TEAM)
            self.enrol(dataset, ENGINE, "engine")
        for scope, name in (("team", TEAM), ("each", TEAM), ("analyst", ANALYST)):
            limit = {"scope": scope, "name": name, "part": "0.5", "reason": REASON}
            limit |= {"pace": {"part": "0.2", "period": "P1D"}}
            record = {"version": 1, "type": "limit", "by": "olga", "dataset": DATASET, **limit}
            self.done("olga", f"/datasets/{DATASET}/limits", record, "limit_set")
        share = {"scope": "team", "name": TEAM, "reserved": "0.3", "by": "olga"}
        record = {"version": 1, "type": "limit", "dataset": DATASET, **share}
        for epsilon, outcome in (("0.1", "granted"), ("0.9", "refused")):
            claim = {"type": "pure", "epsilon": epsilon}
            named = {"dataset": DATASET, "analyst": ANALYST, "via": ENGINE, "purpose": PURPOSE}
            body = request(self.clock, claim=claim, unit=long("i"), **named)
            self.done(ENGINE, "/requests", body, outcome)
        self.clock.pass_(seconds=3 * 86_400)
        fields = {**pausing(self.clock, long("f"), reason=REASON), "by": OWNER}
        self.done(OWNER, f"/datasets/{long('f')}/pause", fields, "paused")


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongNames]:
    with LongNames(tmp_path_factory.mktemp("long")) as made:
        made.furnish()
        yield made


PAGES = {
    "list": "/",
    "dataset": f"/pages/datasets/{DATASET}",
    "paused": f"/pages/datasets/{long('f')}",
    "preview": f"/pages/datasets/{DATASET}?kind=pure&pure_epsilon=0.9&analyst={ANALYST}",
    "forms": f"/pages/datasets/{DATASET}?member={ANALYST}&scope=team&name={TEAM}",
    "missing": f"/pages/datasets/{long('m')}",
    "problem": f"/pages/{long('x')}",
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", [ANALYST, OWNER, "root"], ids=["analyst", "owner", "root"])
def test_no_page_scrolls_sideways_on_a_phone(
    long_names: LongNames, opens: Opens, tmp_path: Path, name: str, scheme: str
) -> None:
    page = opens(long_names.url, width=PHONE, scheme=scheme)
    sign_in(page, long_names.tokens[name])
    wide = {}
    for place, address in PAGES.items():
        page.goto(address)
        closed = page.locator("details:not([open]) > summary")
        while closed.count():
            closed.first.click()
        page.screenshot(path=tmp_path / f"{place}.png", full_page=True)
        if over := overflow(page):
            wide[place] = over
    assert not wide


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_sign_in_page_and_its_error_fit_a_phone(
    long_names: LongNames, opens: Opens, scheme: str
) -> None:
    page = opens(long_names.url, width=PHONE, scheme=scheme)
    page.goto("/sign-in")
    assert overflow(page) == 0
    sign_in(page, long("w"))
    assert overflow(page) == 0
