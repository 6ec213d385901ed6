"""`accountant login` and `logout`: sign in to a server through its identity provider."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from streams.client.login.request import LoginRequest
    from streams.client.login.stored_login import StoredLogin
    from streams.oauth.device import DeviceAuthorization
    from streams.oauth.token_endpoint import OAuthTokens
    from streams.settings import Settings

Server = Annotated[
    str | None,
    typer.Argument(metavar="[URL]", help="The server: https://HOST. Default: --url."),
]


def login(
    server: Server = None,
    url: Url = DEFAULT_URL,
    issuer: Annotated[
        str | None,
        typer.Option(help="The OpenID provider. Default: ACCOUNTANT_LOGIN_ISSUER."),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            help="This command's client id at the provider. Default: ACCOUNTANT_LOGIN_CLIENT_ID."
        ),
    ] = None,
    scopes: Annotated[
        str | None,
        typer.Option(
            help="Scopes to ask for, separated by spaces. Default: ACCOUNTANT_LOGIN_SCOPES, else "
            "openid. Many providers need offline_access, too, to renew the sign-in."
        ),
    ] = None,
    audience: Annotated[
        str | None,
        typer.Option(
            help="The server's audience, for providers such as Auth0. Default: "
            "ACCOUNTANT_LOGIN_AUDIENCE."
        ),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option(
            help="The server's resource (RFC 8707), for providers that need it. Default: "
            "ACCOUNTANT_LOGIN_RESOURCE."
        ),
    ] = None,
    device: Annotated[
        bool,
        typer.Option(
            "--device",
            help="Show an address and a code for the browser of any device. The default without "
            "a browser on this machine.",
        ),
    ] = False,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser",
            help="Print the address instead of opening it. Open it in a browser of this machine, "
            "or forward --port.",
        ),
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65_535,
            help="Port of 127.0.0.1 to which the provider sends the browser back. Default: a free "
            "one.",
        ),
    ] = 0,
    json: Json = False,
) -> None:
    """Sign in to a server with your account at its identity provider.

    Stores a token that every command and Python program of yours sends to this URL, and nowhere
    else. It is renewed for as long as the provider allows. `accountant logout` deletes it.

    Example: `accountant login https://ledger.example.org`.
    """
    from streams.client.login.stored_login import server_url
    from streams.settings import load_login

    given = {
        "login_issuer": issuer,
        "login_client_id": client_id,
        "login_scopes": scopes,
        "login_audience": audience,
        "login_resource": resource,
    }
    with explain_errors():
        settings = load_login(url=server or url, **given)
        address = server_url(settings.url)
        if settings.login_issuer is None or settings.login_client_id is None:
            fail(
                Exit.USAGE,
                "accountant login needs the provider and your client at it",
                hint="add --issuer and --client-id, or set ACCOUNTANT_LOGIN_ISSUER and "
                "ACCOUNTANT_LOGIN_CLIENT_ID. Whoever runs the server knows both",
            )
        way = _Way(device=device, no_browser=no_browser, port=port)
        asyncio.run(_login(address, settings, way, json=json))


class _Way:
    """How a person signs in, by the options and what this machine has."""

    def __init__(self, *, device: bool, no_browser: bool, port: int) -> None:
        if device and no_browser:
            fail(Exit.USAGE, "--device uses the browser of any device: leave out --no-browser")
        self._device = device
        self._no_browser = no_browser
        self._port = port

    def flow(self, request: LoginRequest) -> Callable[[LoginRequest], Awaitable[OAuthTokens]]:
        """Return the flow for a provider."""
        from streams.client.login.browser_flow import can_open_browser

        has_device = request.endpoints.device_authorization_endpoint is not None
        if self._device or (has_device and not self._no_browser and not can_open_browser()):
            return self._by_device
        return self._by_browser

    async def _by_device(self, request: LoginRequest) -> OAuthTokens:
        from streams.client.login.device_flow import sign_in_by_device

        if not self._device:
            say(
                "there is no browser on this machine: sign in with the browser of another device "
                "(--no-browser prints an address for this machine instead)",
                err=True,
            )
        return await sign_in_by_device(request, _show_code)

    async def _by_browser(self, request: LoginRequest) -> OAuthTokens:
        from streams.client.login.browser_flow import can_open_browser, sign_in_by_browser

        opens = not self._no_browser and can_open_browser()
        return await sign_in_by_browser(
            request, _open_and_show if opens else _show_address, port=self._port
        )


def _show_address(address: str) -> None:
    say(f"open this address in a browser of this machine, and sign in:\n{address}", err=True)


def _open_and_show(address: str) -> None:
    from streams.client.login.browser_flow import open_browser

    say(f"sign in with the browser. If it does not open, open this address:\n{address}", err=True)
    open_browser(address)


def _show_code(device: DeviceAuthorization) -> None:
    say(f"open {device.url} in a browser, and type the code {device.user_code}", err=True)
    if device.complete_url is not None:
        say(f"or open {device.complete_url}, and compare the code", err=True)


async def _login(url: str, settings: Settings, way: _Way, *, json: bool) -> None:
    from streams.client.login.request import LoginRequest
    from streams.client.login.sign_in import check_needs_login, find_endpoints, sign_in
    from streams.clock import SystemClock
    from streams.oauth.provider_http import ProviderFault, ProviderUnavailable
    from streams.oauth.token_endpoint import OAuthClient

    issuer = settings.login_issuer or ""
    await check_needs_login(url)
    try:
        request = LoginRequest(
            endpoints=await find_endpoints(issuer),
            client=OAuthClient(client_id=settings.login_client_id or ""),
            scope=settings.login_scopes,
            audience=settings.login_audience,
            resource=settings.login_resource,
        )
        found, me = await sign_in(url, request, way.flow(request), SystemClock())
    except ProviderUnavailable as error:
        hint = "check --issuer (ACCOUNTANT_LOGIN_ISSUER) and the network, and run the command again"
        if isinstance(error, ProviderFault):
            hint = "check --issuer (ACCOUNTANT_LOGIN_ISSUER), and tell whoever runs the provider"
        fail(Exit.UNAVAILABLE, f"the provider {issuer} cannot be used: {error}", hint=hint)
    _show_result(found, me.name, json=json)


def _show_result(login: StoredLogin, name: str | None, *, json: bool) -> None:
    from accountant.times import iso
    from streams.cli.printing.output import print_json

    expires = None if login.expires is None else iso(login.expires)
    is_renewable = bool(login.refresh_token)
    if json:
        print_json(
            {
                "url": login.url,
                "name": name,
                "issuer": login.issuer,
                "expires": expires,
                "renewable": is_renewable,
            }
        )
    else:
        say(f"signed in to {login.url} as {name}")
    _warn_of_other_tokens()
    if not is_renewable:
        until = "until the server rejects it" if expires is None else f"until {expires}"
        say(
            f"the provider issued no refresh token: this sign-in lasts {until}. Many providers "
            'issue one for --scopes "openid offline_access"',
            err=True,
        )


def _warn_of_other_tokens() -> None:
    """Say that a token in the environment overrides the login."""
    import os

    for variable in ("ACCOUNTANT_TOKEN", "ACCOUNTANT_TOKEN_FILE"):
        if os.environ.get(variable):
            say(f"{variable} is set and overrides this sign-in: unset it", err=True)


def logout(
    server: Server = None,
    url: Url = DEFAULT_URL,
    every: Annotated[
        bool, typer.Option("--all", help="Sign out of every server that you are signed in to.")
    ] = False,
    json: Json = False,
) -> None:
    """Sign out of a server: delete its stored token, and revoke it at the provider.

    The token is deleted also if the provider does not answer. An access token that was copied
    elsewhere remains valid until it expires, within minutes at most providers.

    Exit code 1 if you are not signed in to this server.
    """
    from streams.client.login.stored_login import server_url, stored_urls
    from streams.settings import load_login

    with explain_errors():
        if every:
            urls = stored_urls()
            if not urls and not json:
                say("you are not signed in to any server")
        else:
            urls = [server_url(load_login(url=server or url).url)]
        for each in urls:
            _logout(each, json=json)


def _logout(url: str, *, json: bool) -> None:
    from streams.cli.printing.output import print_json
    from streams.client.login.sign_in import sign_out
    from streams.client.login.stored_login import stored_urls
    from streams.oauth.provider_http import ProviderUnavailable

    problem = ""
    try:
        revoked = asyncio.run(sign_out(url))
    except FileNotFoundError:
        others = ", ".join(stored_urls())
        hint = f"you are signed in to {others}" if others else None
        fail(Exit.FAILED, f"you are not signed in to {url}", hint=hint)
    except ProviderUnavailable as error:
        revoked, problem = False, str(error)
    if json:
        print_json({"url": url, "revoked": revoked})
    else:
        say(f"signed out of {url}")
    if problem:
        say(
            f"the provider did not revoke the sign-in: {problem}. It is deleted here; to end it "
            "at the provider too, use the provider's own page of sessions",
            err=True,
        )
