"""Runs a command in the process of the tests."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streams.cli.root import app
from tests.streams.cli.conftest import Done


def run_here(directory: Path, *arguments: str) -> Done:
    """Run a command in this process: it need not import the engine of data again.

    The logging of the process stays as it is. A new configuration closes the handlers before it,
    and one of them, absl's, closes the stream in which pytest captures.
    """
    with chdir(directory), pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams.telemetry.logs.configure_command", lambda: None)
        done = CliRunner().invoke(app, arguments)
    return Done(done.exit_code, done.stdout, done.stderr)
