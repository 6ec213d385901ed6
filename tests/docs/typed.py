"""Type the commands of a page as its reader does, in the process of the tests.

A line is run if a ledger in a file is enough for it. `NEEDS` says what the others need; their
words are parsed by the program's own parser, and the settings before a server are loaded by it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, chdir
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import typer

from streams.cli.root import SERVERS, app
from streams.settings import load_server
from tests.docs.blocks import ROOT
from tests.forks import commands
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import environment
from tests.streams.cli.here import run_here

OPENS = ("README.md", "SECURITY.md", "docs/**", "deploy/**")
STARTS = ("streams.cli", "streams.serve")

NEEDS: Final = {
    r"docker ": "Docker",
    r"kubectl ": "a Kubernetes cluster",
    r"kafka-\w+\.sh ": "Kafka's own commands",
    r"git worktree ": "the history of the repository",
    r"(?:useradd|install|systemctl|journalctl) ": "root, on a machine with systemd",
    r"python3 -m venv ": "a directory of the machine",
    r"make ": "the recipe itself; its name is compared with the Makefile",
    r"(?:\S*/)?pip ": "a package index; its extra is compared with pyproject.toml",
    r"\S*python -m (?:benchmarks|pytest) ": "minutes",
    r"accountant topics ": "brokers",
    r"accountant .*kafka://": "brokers",
    r"accountant .*https://": "the server at that address",
    r"accountant log(?:in|out) ": "an OpenID provider",
    r"accountant watch ": "Ctrl-C: it runs until then",
}
"""What a line needs beside a ledger in a file, by how it begins."""
HARMLESS: Final = {"curl", "echo", "mkdir", "openssl", "python", "sqlite3"}
"""The programs that a page may run here: they change the test's directory alone."""
_SET: Final = re.compile(r"[A-Z_]+=")
_EXIT: Final = re.compile(r"#.*\bexit code (\d+)")
# Directories of a machine, which are directories of the test's.
_OF_THE_MACHINE: Final = re.compile(r"(?<![\w.])/(?=(?:var/lib|mnt|srv|tmp|run/secrets|etc)/)")
# A server with one of these needs an address, a certificate or a provider that no test has.
_OF_A_NETWORK: Final = {"ACCOUNTANT_BIND", "ACCOUNTANT_OIDC_ISSUER"}
_USAGE_ERROR: Final = typer.BadParameter.__mro__[1]
"""What the parser raises."""


def lines(body: str) -> list[str]:
    """Return the commands of a block: one continues while a quote is open, or after a backslash."""
    found = re.findall(r"(?:'[^']*'|\"[^\"]*\"|\\\n|#[^\n]*|[^'\"\n])+", body)
    return [line for each in found if (line := each.strip()) and not line.startswith("#")]


def need(line: str) -> str:
    """Return what a line needs beside a ledger in a file; "" for nothing."""
    words = re.sub(r"^(?:[A-Z_]+=(?:\"[^\"]*\"|\S*) +)*(?:\.venv/bin/)?", "", line) + " "
    return next((why for start, why in NEEDS.items() if re.match(start, words)), "")


@cache
def root_command() -> Any:
    return typer.main.get_command(app)


def problem(words: Sequence[str]) -> str:
    """Return why the program's parser refuses the words after `accountant`; "" if it does not."""
    command, rest = root_command(), list(words)
    while hasattr(command, "commands"):
        if not rest:
            return "Missing command."
        if rest[0] not in command.commands:
            return f"no command {' '.join(words)}"
        command = command.commands[rest.pop(0)]
    try:
        command.make_context("accountant", rest)
    except _USAGE_ERROR as error:
        said = str(error.format_message())  # type: ignore[attr-defined]
        # Whether the reader's file exists is another question.
        return "" if said.endswith("does not exist.") else said
    return ""


class Command(NamedTuple):
    """One simple command: the variables before it, its words, and where its output goes."""

    variables: dict[str, str]
    words: list[str]
    output: str | None
    input: str | None


def command_of(line: str) -> Command:
    """Return the parts of a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="<>|&;()")
    lexer.whitespace_split = True
    words, variables = list(lexer), {}
    ends: dict[str, str | None] = {">": None, "<": None}
    for sign in ends:
        if sign in words:
            at = words.index(sign)
            ends[sign] = words[at + 1]
            del words[at : at + 2]
    while words and _SET.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    return Command(variables, words, ends[">"], ends["<"])


def without_unit(line: str) -> str:
    """Return a line without the `systemd-run` that gives its command the settings of a unit.

    The variables that `systemd-run` would set are before the command. A file of settings is that of
    `deploy/systemd`, from which the page installs it.
    """
    start, found, command = line.partition(" /opt/accountant/bin/accountant ")
    if not (found and start.startswith("systemd-run ")):
        return line
    options = [re.sub(r"^--(?:property|setenv)=", "", each) for each in shlex.split(start)]
    settings = [each for each in options if _SET.match(each)]
    for each in options:
        if each.startswith("EnvironmentFile="):
            text = (ROOT / "deploy/systemd" / Path(each).name).read_text(encoding="utf-8")
            settings += re.findall(r"^[A-Z_]+=\S+$", text, re.MULTILINE)
    return " ".join([*settings, "accountant", command])


def is_accountants(line: str) -> bool:
    """Tell whether a line runs `accountant` itself."""
    return re.match(r"(?:[A-Z_]+=(?:\"[^\"]*\"|\S*) +)*(?:\S*/)?accountant ", line) is not None


class Typist:
    """Somebody who types a page's commands in a directory.

    Attributes:
        variables: what the shell has exported.
        printed: by the last command that ran.
        instead: what the reader writes for what the page leaves open.
        reads: such a word, and where an output has it.
        filled_in: a file that a command begins, and one that the reader has completed.
        tokens: the file of a token, by the comment that says whose it is.
    """

    def __init__(self, directory: Path, serving: ExitStack) -> None:
        self.directory = directory
        self.serving = serving
        homes = {"XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data"}
        self.variables = {name: str(directory / home) for name, home in homes.items()}
        self.printed = ""
        self.instead: dict[str, str] = {}
        self.reads: dict[str, str] = {}
        self.filled_in: dict[str, str] = {}
        self.tokens: dict[str, str] = {}

    def types(self, body: str) -> None:
        """Type a block."""
        for line in lines(body):
            typed = line
            for name, value in self.instead.items():
                typed = typed.replace(name, value)
            typed = without_unit(typed)
            try:
                self._type(_OF_THE_MACHINE.sub(f"{self.directory}/", typed))
            except AssertionError as error:
                raise AssertionError(f"{line}\n{error}") from error

    def _type(self, line: str) -> None:
        if line.startswith("export "):
            self.variables |= command_of(line.removeprefix("export ")).variables
        elif not is_accountants(line):
            if not need(line):
                self._run_in_shell(line)
        else:
            self._run(command_of(line.replace("\\\n", " ")), line)

    def _run(self, command: Command, line: str) -> None:
        words, variables = command.words[1:], self.variables | command.variables
        for whose, token in self.tokens.items():
            if whose in line.partition("#")[2]:
                variables["ACCOUNTANT_TOKEN_FILE"] = token
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert not problem(words), problem(words)
        if words[0] in SERVERS:
            self._serve(words, variables)
        elif not need(f"{line} {variables.get('ACCOUNTANT_URL', '')}"):
            source = (self.directory / command.input).read_bytes() if command.input else b""
            done = run_here(self.directory, *words, stdin=source, **variables)
            code = _EXIT.search(line)
            assert done.code == (int(code[1]) if code else 0), done.out + done.err
            self.printed = done.out
            for word, where in self.reads.items():
                if found := re.search(where, done.out):
                    self.instead[word] = found[1]
            if command.output:
                (self.directory / command.output).touch(mode=0o600)
                (self.directory / command.output).write_text(done.out)
            for begun in self.filled_in.keys() & {command.output, *words}:
                complete = (self.directory / self.filled_in[begun]).read_text()
                (self.directory / begun).write_text(complete)

    def runs(self, program: str) -> None:
        """Run a program that calls the server."""
        for name, value in self.instead.items():
            program = program.replace(name, value)
        names: dict[str, Any] = {}
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
            for name, value in self.variables.items():
                patch.setenv(name, value)
            exec(program, names)
            names["ledger"].close()

    def _run_in_shell(self, line: str) -> None:
        program = next(
            word for word in command_of(line).words if word not in {"(", "umask", "077", ";"}
        )
        assert program in HARMLESS, f"say in NEEDS what {program} needs: it is not run here"
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.directory,
            env=os.environ | self.variables | {"PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _serve(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        """Load a server's settings, and start it if it is one of a file at this machine's address.

        Then commands reach it: it is before the ledger's file.
        """
        with pytest.MonkeyPatch.context() as patch, chdir(self.directory):
            for name in [each for each in os.environ if each.startswith("ACCOUNTANT_")]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            url = words[words.index("--url") + 1] if "--url" in words else None
            load_server(url=url)
        if words[0] != "serve" or variables.keys() & _OF_A_NETWORK:
            return
        process = commands.start(
            *words,
            cwd=self.directory,
            env=environment(**variables, ACCOUNTANT_PORT="0"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.serving.callback(process.communicate, timeout=PATIENCE_S)
        self.serving.callback(process.terminate)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("listening at "), said
        self.instead["http://127.0.0.1:8000"] = said.split()[-1]
