"""Signing in at the provider by redirect: bound to one browser, once, and to this server alone."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from streams.oauth.pkce import challenge_of
from streams.pages.login.pending_sign_ins import MAX_PENDING, PATIENCE_S, PendingSignIns
from tests.every_case import every_case
from tests.streams.oauth.sign_in_provider import CLIENT, SignInProvider
from tests.streams.pages.login.provider_server import (
    ProviderPerson,
    ProviderServer,
    fields_of,
    leads_to,
)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[ProviderServer]:
    with SignInProvider() as provider, ProviderServer(tmp_path, provider) as server:
        yield server


@pytest.fixture
def person(office: ProviderServer) -> Iterator[ProviderPerson]:
    with ProviderPerson(office) as made:
        yield made


def changed(address: str, **fields: str | None) -> str:
    """Return an address with other fields; None removes one."""
    all_ = {**fields_of(address), **fields}
    query = urlencode({name: value for name, value in all_.items() if value is not None})
    return f"{address.partition('?')[0]}?{query}"


def test_a_person_signs_in_with_the_account_of_the_provider(
    office: ProviderServer, person: ProviderPerson
) -> None:
    page = person.look("/sign-in?next=/pages/datasets/survey").text
    assert "Sign in with your organisation's account" in page
    done = person.sign_in_at_provider(next_="/pages/datasets/survey")
    assert leads_to(done) == "/pages/datasets/survey"
    shown = person.look("/pages/datasets/survey")
    assert shown.status_code == 200
    assert "<b>ana</b>" in shown.text
    out = person.sign_out().headers["location"]
    assert out == "/sign-in?signed-out=yes"
    said = "You are signed out. Your organisation's account may still be signed in on this computer"
    assert said in unescape(person.look(out).text)
    assert said not in unescape(person.look("/sign-in").text)
    assert "You are signed out" not in person.look(out, sec_fetch_site="cross-site").text
    assert person.look("/").status_code == 303


def test_the_session_cookie_is_strict_and_the_one_that_returns_is_lax(
    person: ProviderPerson,
) -> None:
    started = person.start()
    (lax,) = [c for c in started.headers.get_list("set-cookie") if "accountant-sign-in=" in c]
    parts = {part.strip().lower() for part in lax.split(";")[1:]}
    assert parts == {"httponly", "path=/", "samesite=lax", "max-age=600"}
    done = person.finish(person.provider_answer(started))
    (strict,) = [c for c in done.headers.get_list("set-cookie") if "accountant-session=" in c]
    parts = {part.strip().lower() for part in strict.split(";")[1:]}
    assert parts == {"httponly", "path=/", "samesite=strict"}
    assert done.headers["cache-control"] == "no-store"


def test_each_sign_in_has_its_own_state_nonce_and_pkce_challenge(
    office: ProviderServer, person: ProviderPerson
) -> None:
    first, second = (fields_of(leads_to(person.start())) for _ in range(2))
    assert first.get("code_challenge_method") == "S256"
    assert first["response_type"] == "code"
    assert first["scope"] == "openid"
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) == 43
        assert first[name] != second[name]
    person.sign_in_at_provider()
    sent = office.provider.forms[-1]
    assert challenge_of(sent["code_verifier"]) == office.provider.requests[-1]["code_challenge"]
    assert "code_verifier" not in office.provider.requests[-1]


def test_offline_access_is_asked_for_with_consent_unless_the_settings_name_a_prompt(
    tmp_path: Path,
) -> None:
    for i, (scopes, parameters, prompt) in enumerate(
        [
            ("openid offline_access", "", "consent"),
            ("openid offline_access", "resource=accountant", "consent"),
            ("openid offline_access", "prompt=select_account", "select_account"),
            ("openid", "", None),
            ("openid offline_accesses", "", None),
        ]
    ):
        (directory := tmp_path / str(i)).mkdir()
        settings = {"oidc_scopes": scopes, "oidc_sign_in_parameters": parameters}
        with (
            SignInProvider() as provider,
            ProviderServer(directory, provider, **settings) as server,
            ProviderPerson(server) as person,
        ):
            assert leads_to(person.sign_in_at_provider()) == "/"
            assert provider.requests[-1].get("prompt") == prompt, (scopes, parameters)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("gives", [True, False])
def test_the_log_says_whether_a_session_can_be_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, asks: bool, gives: bool
) -> None:
    caplog.set_level("INFO")
    scopes = "openid offline_access" if asks else "openid"
    with (
        SignInProvider() as provider,
        ProviderServer(tmp_path, provider, oidc_scopes=scopes) as server,
        ProviderPerson(server) as person,
    ):
        provider.refreshes = gives
        assert leads_to(person.sign_in_at_provider()) == "/"
    events = [(each.levelname, each.getMessage()) for each in caplog.records]
    ((_, signed_in),) = [event for event in events if "signed_in" in event[1]]
    assert f"renewable={gives}" in signed_in
    missing = [event for event in events if "refresh_token_missing" in event[1]]
    assert len(missing) == (asks and not gives)
    assert all(level == "WARNING" and "offline_access" in text for level, text in missing)


def test_a_code_without_the_state_of_its_sign_in_begins_no_session(
    office: ProviderServer, person: ProviderPerson
) -> None:
    where = person.provider_answer(person.start())
    for state in ("", "x", "A" * 43, None):
        answer = person.finish(changed(where, state=state))
        assert answer.status_code == 400
        assert "did not begin this sign-in" in answer.text
    assert (person.session, office.provider.forms) == (None, [])
    twice = person.finish(f"{where}&state={'A' * 43}")
    assert (twice.status_code, office.provider.forms) == (400, [])


def test_the_state_of_another_browser_begins_no_session(
    office: ProviderServer, person: ProviderPerson
) -> None:
    office.provider.person = "mallory"
    with ProviderPerson(office) as mallory:
        where = mallory.provider_answer(mallory.start())
        person.start()  # the victim has a cookie too, of another sign-in
        for answer in (person.finish(where), ProviderPerson(office).finish(where)):
            assert answer.status_code == 400
            assert "accountant-session" not in str(answer.headers)
        assert office.provider.forms == []
        assert leads_to(mallory.finish(where)) == "/"  # nobody has used it up


def test_a_state_is_used_once(office: ProviderServer, person: ProviderPerson) -> None:
    where = person.provider_answer(person.start())
    assert leads_to(person.finish(where)) == "/"
    asked = len(office.provider.forms)
    assert person.finish(where).status_code == 400
    assert len(office.provider.forms) == asked


def test_a_sign_in_must_be_finished_within_ten_minutes(
    office: ProviderServer, person: ProviderPerson
) -> None:
    where = person.provider_answer(person.start())
    office.clock.pass_(seconds=PATIENCE_S)
    assert person.finish(where).status_code == 400
    where = person.provider_answer(person.start())
    office.clock.pass_(seconds=PATIENCE_S - 1)
    assert leads_to(person.finish(where)) == "/"


def test_two_tabs_of_a_browser_sign_in_side_by_side(person: ProviderPerson) -> None:
    first, second = (person.provider_answer(person.start()) for _ in range(2))
    assert leads_to(person.finish(first)) == "/"
    assert leads_to(person.finish(second)) == "/"


def test_an_id_token_with_another_nonce_begins_no_session(
    office: ProviderServer, person: ProviderPerson
) -> None:
    for nonce in ("A" * 43, "", None, 7):
        office.provider.identity = {"nonce": nonce}
        answer = person.sign_in_at_provider()
        assert answer.status_code == 403
        assert "does not accept its tokens" in answer.text
        assert person.session is None


@every_case(
    "claims",
    [
        {"aud": "accountant"},
        {"aud": [CLIENT, "another"]},
        {"azp": "another"},
        {"iss": "http://127.0.0.1:9"},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"sub": "ben"},
        {"sub": None},
        {"sub": ""},
    ],
)
def test_an_id_token_of_another_client_or_person_begins_no_session(
    office: ProviderServer, claims: dict[str, object]
) -> None:
    with ProviderPerson(office) as person:
        office.provider.identity = claims
        assert person.sign_in_at_provider().status_code == 403
        assert person.session is None
        office.provider.identity = {"azp": CLIENT, "at_hash": "x"}
        assert leads_to(person.sign_in_at_provider()) == "/"


def test_an_access_token_for_another_service_begins_no_session(
    office: ProviderServer, person: ProviderPerson
) -> None:
    office.provider.access = {"aud": "payroll"}
    assert person.sign_in_at_provider().status_code == 403
    office.provider.access, office.provider.opaque = {}, True
    assert person.sign_in_at_provider().status_code == 403
    assert person.session is None


def test_the_redirect_address_is_the_setting_whatever_host_a_browser_names(
    office: ProviderServer, person: ProviderPerson
) -> None:
    port = urlsplit(office.url).port
    for host in (f"localhost:{port}", "127.0.0.1:1", "localhost"):
        headers = {"host": host, "x_forwarded_host": "evil.example"}
        started = person.start(**headers)
        assert fields_of(leads_to(started))["redirect_uri"] == office.callback
    person.sign_in_at_provider()
    assert office.provider.forms[-1]["redirect_uri"] == office.callback


@every_case(
    "address",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/pages/\r\nSet-Cookie: a=b",
        "/pages/; url=//evil.example\t",
        "/datasets",
        "/sign-out",
        "/sign-in/start",
        "/sign-in/callback?code=x",
        "",
    ],
)
def test_signing_in_leads_to_no_other_site(office: ProviderServer, address: str) -> None:
    with ProviderPerson(office) as person:
        assert leads_to(person.sign_in_at_provider(next_=address)) == "/"


def test_signing_in_gives_a_new_session_id_and_ends_the_browser_s_old_session(
    office: ProviderServer, person: ProviderPerson
) -> None:
    token = person.form_token()
    person.http.post("/sign-in", data={"form_token": token, "token": office.administrator})
    old = person.session
    assert old is not None
    with ProviderPerson(office) as other:  # a form that was open before the browser signed in
        form = {"form_token": other.form_token(), "next": "/"}
        person.http.cookies.update(other.http.cookies)
    started = person.http.post("/sign-in/start", data=form)
    assert leads_to(person.finish(person.provider_answer(started))) == "/"
    assert person.session not in {old, None}
    with ProviderPerson(office) as thief:
        thief.http.cookies.set("accountant-session", old, domain="127.0.0.1", path="/")
        assert thief.look("/").status_code == 303
    assert "<b>ana</b>" in person.look("/").text


def test_a_browser_cannot_choose_the_id_of_its_session(person: ProviderPerson) -> None:
    person.http.cookies.set("accountant-session", "A" * 43, domain="127.0.0.1", path="/")
    person.sign_in_at_provider()
    assert person.session != "A" * 43


def test_no_other_site_begins_a_sign_in(office: ProviderServer, person: ProviderPerson) -> None:
    good = person.form_token()
    for form, site in (({"form_token": good}, "cross-site"), ({"form_token": "x"}, "same-origin")):
        answer = person.http.post("/sign-in/start", data=form, headers={"sec-fetch-site": site})
        assert answer.status_code == 403
        assert "refresh" not in answer.headers
    assert person.look("/sign-in/start").status_code == 405
    assert office.provider.requests == []


def test_the_answer_of_another_provider_is_refused(
    office: ProviderServer, person: ProviderPerson
) -> None:
    for issuer in ("http://127.0.0.1:9", "", None):
        where = person.provider_answer(person.start())
        answer = person.finish(changed(where, iss=issuer))
        assert answer.status_code == 400
        assert "of another provider" in answer.text
    assert office.provider.forms == []


def test_a_provider_that_does_not_name_itself_in_answers_is_accepted(tmp_path: Path) -> None:
    class Older(SignInProvider):
        def discovery(self) -> dict[str, object]:
            return {
                name: value
                for name, value in super().discovery().items()
                if name != "authorization_response_iss_parameter_supported"
            }

    with (
        Older() as provider,
        ProviderServer(tmp_path, provider) as server,
        ProviderPerson(server) as person,
    ):
        where = person.provider_answer(person.start())
        assert leads_to(person.finish(changed(where, iss=None))) == "/"


def test_the_provider_s_refusal_is_shown_in_its_words(
    office: ProviderServer, person: ProviderPerson
) -> None:
    office.provider.denied = "access_denied"
    answer = person.sign_in_at_provider(next_="/pages/datasets/survey")
    assert answer.status_code == 403
    assert "did not sign you in (access_denied: &lt;b&gt;access_denied&lt;/b&gt;" in answer.text
    assert 'href="/sign-in?next=/pages/datasets/survey"' in answer.text
    office.provider.denied, office.provider.refused = None, "invalid_client"
    answer = person.sign_in_at_provider()
    assert (answer.status_code, "invalid_client" in answer.text) == (403, True)
    assert person.session is None


def test_a_provider_that_is_away_is_named_and_the_token_form_stays(tmp_path: Path) -> None:
    with (
        SignInProvider() as provider,
        ProviderServer(tmp_path, provider) as server,
        ProviderPerson(server) as person,
    ):
        provider.broken = "error"
        answer = person.start()
        assert answer.status_code == 503
        assert "sign-in does not answer" in answer.text
        assert 'name="token"' in answer.text
        provider.broken = None
        server.clock.pass_(seconds=2)
        where = person.provider_answer(person.start())
        provider.away = True
        answer = person.finish(where)
        assert (answer.status_code, person.session) == (503, None)


def test_the_log_has_no_code_no_state_and_no_token(
    office: ProviderServer, person: ProviderPerson, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    where = person.provider_answer(person.start())
    person.finish(where)
    person.finish(where)
    # Of the client, and of uvicorn, whose lines no handler gets.
    others = ("http", "uvicorn.access")
    written = "".join(
        each.getMessage() for each in caplog.records if not each.name.startswith(others)
    )
    assert "signed_in" in written
    assert "sign_in_refused" in written
    sent = office.provider.forms[-1]
    secret = fields_of(where)["state"], sent["code"], sent["code_verifier"], person.session or "?"
    for each in (*secret, *office.provider.given):
        assert each not in written


def test_a_confidential_client_sends_its_secret_from_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text("a-secret-of-the-client\n")
    with (
        SignInProvider(secret="a-secret-of-the-client") as provider,
        ProviderServer(tmp_path, provider, oidc_client_secret_file=file) as server,
        ProviderPerson(server) as person,
    ):
        assert leads_to(person.sign_in_at_provider()) == "/"


def test_parameters_of_the_setting_are_sent_and_a_resource_to_the_token_endpoint_too(
    tmp_path: Path,
) -> None:
    more = {"oidc_sign_in_parameters": "resource=a%3Ab&prompt=consent", "oidc_scopes": "openid x"}
    with SignInProvider() as provider, ProviderServer(tmp_path, provider, **more) as server:
        with ProviderPerson(server) as person:
            assert leads_to(person.sign_in_at_provider()) == "/"
        sent = provider.requests[-1]
        assert (sent["resource"], sent["prompt"], sent["scope"]) == ("a:b", "consent", "openid x")
        assert provider.forms[-1]["resource"] == "a:b"
        assert "prompt" not in provider.forms[-1]


def test_without_a_client_id_people_paste_tokens_alone(tmp_path: Path) -> None:
    off = {"oidc_client_id": None, "oidc_redirect_url": None}
    with SignInProvider() as provider, ProviderServer(tmp_path, provider, **off) as server:
        with ProviderPerson(server) as person:
            assert "organisation" not in person.look("/sign-in").text
            assert person.http.post("/sign-in/start").headers["location"] == "/sign-in"
            assert person.look("/sign-in/callback?code=x").headers["location"] == "/sign-in"
        assert provider.requests == []


def test_pending_sign_ins_are_bounded_in_number_and_time() -> None:
    now = [0.0]
    pending = PendingSignIns(lambda: now[0])
    first = pending.begin("a", "/", None)
    made = [pending.begin("a", "/", None) for _ in range(MAX_PENDING)]
    assert len(pending) == MAX_PENDING
    assert pending.take("a", first.state) is None
    assert pending.take("a", made[0].state) == made[0]
    assert made[1].verifier not in repr(made[1])
    now[0] = PATIENCE_S
    assert pending.take("a", made[1].state) is None
    assert len(pending) == 0


def test_an_answer_is_bounded(person: ProviderPerson) -> None:
    where = person.provider_answer(person.start())
    assert person.finish(f"{where}&more={'x' * 9_000}").status_code == 400


def test_programs_cannot_use_a_session_that_began_at_the_provider(person: ProviderPerson) -> None:
    person.sign_in_at_provider()
    assert person.look("/").status_code == 200
    for path in ("/datasets", "/me", "/datasets/survey"):
        assert person.look(path).status_code == 401
