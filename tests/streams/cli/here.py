"""Runs a command in the process of the tests."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import chdir
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from streams.cli.root import SERVERS, app
from streams.variables import in_upper_case
from tests.streams.cli.conftest import Command, Done, environment

_SETS_UP_LOGGING: Final = SERVERS | {"demo"}


def run_here(directory: Path, *arguments: str, stdin: bytes = b"", **variables: str) -> Done:
    """Run a command in this process: it need not import the engine of data again.

    The logging of the process stays as it is. A new configuration closes the handlers before it,
    and one of them, absl's, closes the stream in which pytest captures.

    Args:
        variables: of the environment, which has no other one of ours.
    """
    wanted = environment(**variables)
    wanted |= in_upper_case(wanted)
    others: dict[str, str | None] = dict.fromkeys(os.environ.keys() - wanted.keys())
    with chdir(directory), pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams.telemetry.logs.configure_command", lambda: None)
        patch.setattr(sys, "argv", ["accountant", *arguments])
        done = CliRunner().invoke(app, arguments, input=stdin, env=others | wanted)
    if not isinstance(done.exception, SystemExit | None):
        raise AssertionError("a command ends by an unexpected error") from done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


class CommandHere(Command):
    """Runs `accountant` in this process, which takes a third of a fork's processor time.

    It is a process of its own if its output goes elsewhere, another thread runs it, or it sets up
    the logging of its process.
    """

    def __call__(
        self, *arguments: str, stdin: bytes = b"", out: str | None = None, **more: str
    ) -> Done:
        is_main = threading.current_thread() is threading.main_thread()
        if out is not None or not is_main or not _SETS_UP_LOGGING.isdisjoint(arguments[:1]):
            return super().__call__(*arguments, stdin=stdin, out=out, **more)
        return run_here(self.directory, *arguments, stdin=stdin, **more)
