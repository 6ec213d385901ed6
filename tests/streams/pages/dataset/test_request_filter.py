"""Links that filter the requests of a dataset's page, which never show more than the page does."""

from __future__ import annotations

import re

from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words


def asked(server: PagesServer, name: str, **query: str) -> list[str]:
    """Return the claim of each request that somebody's page shows."""
    text = server.page(name, **query).text
    card = text.split('id="requests"')[1].split("</section>")[0]
    return re.findall(r'class="outcome">[^<]*</span> <code>([^<]*)</code>', card)


def test_requests_are_filtered_by_analyst_team_and_outcome(shared_pages: PagesServer) -> None:
    every = asked(shared_pages, "olga")
    assert len(every) == 11
    assert asked(shared_pages, "olga", requests_by="otto") == ["pure:0.9", "pure:0.2"]
    assert asked(shared_pages, "olga", requests_outcome="refused") == ["pure:0.03", "pure:0.9"]
    red = asked(shared_pages, "olga", requests_team="red")
    assert len(red) == 8
    both = asked(shared_pages, "olga", requests_team="red", requests_outcome="refused")
    assert both == ["pure:0.03"]
    assert asked(shared_pages, "olga", requests_outcome="waiting") == []
    assert asked(shared_pages, "olga", requests_outcome="<script>") == every


def test_the_links_keep_the_other_filters(shared_pages: PagesServer) -> None:
    text = shared_pages.page("olga", requests_team="red").text
    page = "/pages/datasets/survey"
    assert f'href="{page}?requests_team=red&amp;requests_outcome=refused#requests"' in text
    assert f'href="{page}?requests_team=blue#requests"' in text
    assert f'href="{page}#requests"' in text
    assert f'href="{page}?requests_by=ben#requests"' in text
    assert '<b aria-current="true">red</b>' in text


def test_a_filter_shows_an_analyst_no_request_of_others(shared_pages: PagesServer) -> None:
    own = asked(shared_pages, "ana")
    for query in ({"requests_by": "otto"}, {"requests_team": "blue"}, {"requests_by": "ben"}):
        assert asked(shared_pages, "ana", **query) == []
        assert "No such requests." in words(shared_pages.page("ana", **query).text)
    assert asked(shared_pages, "ana", requests_outcome="refused") == ["pure:0.03"]
    assert own == ["pure:0.03", "pure:0.004"]
