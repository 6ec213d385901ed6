"""`accountant ready`: whether a server decides requests, and if not, why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from streams.client.http.readiness import ServerReadiness

_HIDDEN: Final = (
    "its reasons are not shown to you: name its own port (https://), not the one for probes, and "
    "use the token of an administrator or of a name in ACCOUNTANT_METRICS_READERS"
)
_NAME_ONE: Final = (
    "name a server: --url http://HOST:PORT of `accountant serve`, a gateway, a worker, or a port "
    "for probes"
)


def ready(url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False) -> None:
    """Show whether a server is ready, and if not, each reason with its next step.

    Works for `accountant serve` (also by its ledger's file), a gateway, a worker and a port for
    probes. With authentication, reasons need the token of an administrator or a metrics reader. The
    token is never sent over http to another machine; a port for probes needs none.

    Exit code 1 if the server is not ready, 3 if it does not answer.
    """
    from streams.cli.printing.output import print_json

    with explain_errors():
        server = server_of(url, "brokers have no readiness: each gateway and worker has", _NAME_ONE)
        found = _read(server, token_file)
    if json:
        print_json(
            {
                "url": server,
                "ready": found.ready,
                "reasons": found.reasons,
                "notes": found.notes,
            }
        )
    else:
        _show(server, found)
    raise typer.Exit(Exit.OK if found.ready else Exit.FAILED)


def server_of(url: str, no_broker: str, hint: str) -> str:
    """Return the address of a server; of a file, that of the server which has it open.

    Args:
        no_broker: why a broker is no such server.
        hint: what to name instead.
    """
    from streams.address import ledger_url
    from streams.embedded.file_lock import FileLock

    kind, target = ledger_url(url)
    if kind == "http":
        return target
    if kind == "kafka":
        fail(Exit.USAGE, no_broker, hint=hint)
    owner = FileLock(Path(target)).owner()
    if owner is None or owner.address is None:
        fail(Exit.USAGE, f"no server has {target} open", hint=hint)
    return owner.address


def _read(url: str, token_file: Path | None) -> ServerReadiness:
    from streams.cli.reading.connect import settings_for
    from streams.client.http.bearer import bearer_for, may_send_token
    from streams.client.http.login_auth import LoginAuth
    from streams.client.http.readiness import read_readiness
    from streams.errors import Unauthenticated, Unavailable

    settings = settings_for(url, token_file)
    auth = bearer_for(url, settings) if may_send_token(url, settings) else None
    try:
        return read_readiness(url, auth)
    except (Unauthenticated, Unavailable):
        if not isinstance(auth, LoginAuth):
            raise
        # A sign-in that cannot be renewed now must not hide whether the server is ready.
        return read_readiness(url, None)


def _show(url: str, found: ServerReadiness) -> None:
    say(f"{url} is {'ready' if found.ready else 'not ready'}")
    for reason in found.reasons or ():
        say(f"reason: {reason}")
    for note in found.notes:
        say(f"note: {note}")
    if not found.ready and found.reasons is None:
        say(_HIDDEN)
