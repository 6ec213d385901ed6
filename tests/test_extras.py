"""The features of a bare installation, and the messages about missing extras."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Refuses the modules of every extra, as an installation does that never had them.
BARE = """
import sys

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {gone}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Bare())
"""
GONE = (
    "aiokafka", "confluent_kafka", "duckdb", "faust", "jwt", "litestar", "matplotlib", "mode",
    "numpy", "opendp", "opentelemetry", "scipy", "sklearn", "uvicorn", "yaml",
)  # fmt: skip


def bare(code: str, where: Path) -> subprocess.CompletedProcess[str]:
    program = BARE.format(gone=set(GONE)) + code
    return subprocess.run(
        [sys.executable, "-c", program], cwd=where, capture_output=True, text=True, timeout=60
    )


def command(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        f"from streams.cli.root import main; sys.argv = ['accountant', *{list(arguments)}]; main()"
    )
    return bare(code, where)


def test_the_client_and_an_embedded_ledger_need_no_extra(tmp_path: Path) -> None:
    done = bare(
        """
from streams.client import Accountant
with Accountant("sqlite:///bare.db") as ledger:
    ledger.as_owner("registrar").open("census", {"epsilon": "1", "delta": "1e-6"})
    assert ledger.release("census", "pure:0.01", lambda: 41, analyst="ana") == 41
    assert [view.dataset for view in ledger.datasets()] == ['census']
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for arguments in (
        ("audit", "bare.db"),
        ("fits", "--epsilon", "1", "--delta", "1e-6", "--claim", "pure:0.1"),
    ):
        done = command(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    assert command(tmp_path, "demo", "--requests", "20").returncode == 0


def test_signing_in_needs_no_extra(tmp_path: Path) -> None:
    found = sorted(path.stem for path in (ROOT / "streams" / "oauth").glob("[a-z]*.py"))
    done = bare("\n".join(f"import streams.oauth.{name}" for name in found), tmp_path)
    assert (done.returncode, len(found) >= 4) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("serve",), "server"),
        (("worker", "--url", "kafka://127.0.0.1:1"), "kafka,server"),
        (("topics", "check", "--url", "kafka://127.0.0.1:1"), "kafka"),
        (("dataset", "list", "--url", "kafka://127.0.0.1:1"), "kafka"),
        (("head", "--key", "key", "--to", "kafka://127.0.0.1:1/checkpoints"), "kafka"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_a_missing_package_is_named_with_its_extra(
    arguments: tuple[str, ...], extra: str, tmp_path: Path
) -> None:
    done = command(tmp_path, *arguments)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Run `pip install '.[" in done.stderr
    named = done.stderr.rpartition("[")[2].partition("]")[0]
    assert set(named.split(",")) <= set(extra.split(","))
    assert set(named.split(",")) <= set(PROJECT["optional-dependencies"])


def test_a_client_names_the_extra_of_an_address(tmp_path: Path) -> None:
    done = bare(
        """
from streams.client import Accountant, Refused
try:
    Accountant("kafka://127.0.0.1:1").datasets()
except Refused as error:
    print(error)
""",
        tmp_path,
    )
    assert "pip install '.[kafka]'" in done.stdout, done.stderr


def test_a_data_source_names_its_extra(tmp_path: Path) -> None:
    (tmp_path / "sources.json").write_text('{"census": {"kind": "csv", "path": "census.csv"}}')
    done = bare(
        """
from pathlib import Path
from streams.errors import Refused
from streams.sources import read_data_sources
try:
    read_data_sources(Path("sources.json"))
except Refused as error:
    print(error)
""",
        tmp_path,
    )
    said = "a data source needs duckdb, which is not installed. Run `pip install '.[answers]'`"
    assert done.stdout.startswith(said), done.stderr


def test_a_source_in_postgresql_names_its_extra(tmp_path: Path) -> None:
    code = """
from streams.errors import Refused
from streams.sources import DataSources
from streams.sources.source_settings import PostgresqlSource
try:
    DataSources({"clinic": PostgresqlSource(connection_file="c", table="t")})
except Refused as error:
    print(error)
"""
    program = BARE.format(gone={"psycopg"}) + code
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    said = (
        "a data source in PostgreSQL needs psycopg, which is not installed. "
        "Run `pip install '.[answers]'`"
    )
    assert done.stdout.startswith(said), done.stderr


@pytest.mark.parametrize("words", [("serve",), ("worker", "--url", "kafka://127.0.0.1:1")])
def test_tracing_without_its_extra_is_refused_before_a_ledger_is_made(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    code = f"""
import os
os.environ["ACCOUNTANT_OPENTELEMETRY"] = "true"
from streams.cli.root import main
sys.argv = ["accountant", *{list(words)}]
main()
"""
    program = BARE.format(gone={"opentelemetry"}) + code
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "ACCOUNTANT_OPENTELEMETRY needs opentelemetry, which is not installed" in said
    assert "`pip install '.[otel]'`" in said
    assert not list(tmp_path.iterdir())
