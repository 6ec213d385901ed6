"""`accountant token`: tokens with which people and programs sign in to a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, check_secret_output, output_in
from streams.cli.printing.say import say
from streams.cli.reading.options import Json

if TYPE_CHECKING:
    from streams.auth.token_file import Made, Row

app = typer.Typer(help="Create, list and revoke tokens of a server.", no_args_is_help=True)

Tokens = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        envvar="ACCOUNTANT_TOKENS",
        help="File with the hashes of the tokens; the server has the same setting.",
    ),
]
_DURATION: Final = re.compile(r"P(?:([1-9][0-9]{0,3})D|T([1-9][0-9]{0,3})H)")
_HOUR_MS: Final = 3_600_000


@app.command("create")
def create(
    name: Annotated[
        str, typer.Option(help="Name of the person or program, as in requests and records.")
    ],
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="LIFETIME",
            help="How long the token is valid: P90D or PT8H. Without it, it does not expire.",
        ),
    ] = None,
    another: Annotated[
        bool,
        typer.Option("--another", help="Create a second token although the name has a valid one."),
    ] = False,
    tokens: Tokens = None,
    out: Out = None,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """Create a token and print it once, or write it to a file: the server's file has its hash only.

    Creates the server's file (mode 0600) if it does not exist. A running server accepts the token
    at once. Write it with --out: a shell empties the file after `>`, even if the command then
    fails. stdout that is a file which other users may read is refused.
    """
    from streams.auth.token_file import create as create_token
    from streams.cli.printing.output import print_json
    from streams.clock import SystemClock

    with explain_errors():
        now = SystemClock().now()
        until = None if expires is None else now + _milliseconds(expires)
        file = _named(tokens)
        _check_prefix(name)
        is_new = not file.exists()
        check_secret_output(out)
        with revoked_unless_written(file) as made, output_in(out, replace=replace):
            made.append(create_token(file, name, now=now, expires=until, another=another))
            token, row = made[0]
            if json:
                print_json({"token": token, **_fields(row, now)})
            else:
                say(token)
        if json:
            return
        if is_new:
            say(f"{file} is new: it has this token alone. Keep a copy of it.", err=True)
        ends = "does not expire" if row.expires is None else f"expires {row.expires}"
        where = "printed once, above" if out is None else f"in {out}, and nowhere else"
        then = (
            f"Give it to {name}, to set ACCOUNTANT_TOKEN, or to store in a file (mode 0600) that "
            "ACCOUNTANT_TOKEN_FILE names."
            if out is None
            else f"Give the file to {name}: ACCOUNTANT_TOKEN_FILE names it."
        )
        say(
            f"Made a token for {name} ({where}). Its id, for `token revoke`, is {row.id}. The "
            f"token {ends}. {then}",
            err=True,
        )


@contextmanager
def revoked_unless_written(file: Path) -> Iterator[list[Made]]:
    """Revoke the token that the block adds to a list, if nobody got it."""
    from streams.auth.token_file import revoke as revoke_tokens
    from streams.clock import SystemClock

    made: list[Made] = []
    try:
        yield made
    except BaseException:
        for each in made:
            revoke_tokens(file, each.row.id, now=SystemClock().now())
        raise


@app.command("list")
def list_tokens(tokens: Tokens = None, json: Json = False) -> None:
    """List the tokens, without their secrets."""
    from streams.auth.token_file import read
    from streams.cli.printing.output import print_json, stdout
    from streams.clock import SystemClock

    with explain_errors():
        rows, _ = read(_named(tokens))
        now = SystemClock().now()
        if json:
            for row in rows:
                print_json(_fields(row, now))
            return
        from rich.table import Table

        from accountant.display.times import moment

        table = Table("id", "name", "state", "created", "expires", "revoked", box=None)
        for row in rows:
            times = map(moment, (row.created, row.expires, row.revoked))
            table.add_row(row.id, row.name, row.state(now), *times)
        stdout().print(table)


@app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(help="A name, for all its tokens; or a token's id.")],
    tokens: Tokens = None,
    json: Json = False,
) -> None:
    """Revoke tokens: a running server rejects them at once. Exit code 1 if none is active."""
    from streams.auth.token_file import revoke as revoke_tokens
    from streams.cli.printing.output import print_json
    from streams.clock import SystemClock

    with explain_errors():
        now = SystemClock().now()
        revoked = revoke_tokens(_named(tokens), which, now=now)
    for row in revoked:
        if json:
            print_json(_fields(row, now))
        else:
            say(f"revoked {row.id} of {row.name}")
    if not revoked:
        hint = "`accountant token list` shows the names and ids"
        fail(Exit.FAILED, f"no active token for {which[:100]}", hint=hint)


def _named(tokens: Path | None) -> Path:
    if tokens is None:
        hint = "add --tokens FILE, or set ACCOUNTANT_TOKENS as for the server"
        fail(Exit.USAGE, "no token file is named", hint=hint)
    return tokens


def _check_prefix(name: str) -> None:
    """Check a name against the servers' name prefix, if this environment sets it."""
    from streams.settings import load_command

    prefix = load_command().token_prefix
    if not name.startswith(prefix):
        rule = f"must begin with {prefix} (ACCOUNTANT_TOKEN_PREFIX)"
        fail(Exit.USAGE, f"the name {rule}, got {name[:100]}", hint=f"--name {prefix}{name[:50]}")


def _milliseconds(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    if match is None:
        fail(Exit.USAGE, f"--expires must be days or hours, P90D or PT8H, got {duration[:40]}")
    days, hours = match.groups()
    return _HOUR_MS * (int(days) * 24 if days else int(hours))


def _fields(row: Row, now: int) -> dict[str, object]:
    times = {"created": row.created, "expires": row.expires, "revoked": row.revoked}
    return {"id": row.id, "name": row.name, "state": row.state(now), **times}
