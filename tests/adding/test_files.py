"""A filter with a parameter and a sum is four files, a claim two, a statistic with parts five.

Each is a patch on a copy of the tree.

Where a patch no longer applies, because what it stands beside has changed or moved:

    git apply --reject tests/adding/filter.patch    # then mend what was rejected by hand
    git add --intent-to-add accountant
    git diff -- accountant streams > tests/adding/filter.patch
    git apply --reverse tests/adding/filter.patch && git reset accountant

and the same for the other patches.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from accountant.times import uuid7

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
pytestmark = pytest.mark.slow
RUN = """
import json, sys
from typer.testing import CliRunner
from streams.cli.root import app

commands, stdin = json.load(sys.stdin)
for command in commands:
    print(json.dumps(CliRunner().invoke(app, command, input=stdin).output))
"""
ASK_ADDED = """
import json, sys
from pathlib import Path
import pyarrow as pa
from accountant.answers.rebuild import difference_from_run
from accountant.claims.text import claim_text
from accountant.questions import evaluate
from accountant.questions.statistics import STATISTICS
from streams.gateway.contract.schemas import components
from tests.accountant.answers.runs import answer, ask
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import CENSUS
from tests.streams.sources.source_files import assert_equal_to_the_reference

text, name = json.load(sys.stdin)
rows = [{"person": i, "age": i % 130, "region": "north"} for i in range(2600)]
asked = ask(text, "epsilon: 2")
shown = answer(asked, evaluate(asked.checked, rows, key=b"k"), bits_of(1))
assert difference_from_run(asked.granted, CENSUS, shown) is None
columns = {name: (pa.int64(), [row[name] for row in rows]) for name in ("person", "age")}
columns["region"] = (pa.string(), ["north"] * len(rows))
assert_equal_to_the_reference(text, CENSUS, columns, Path())
print(json.dumps({
    "claim": claim_text(asked.derivation.claim), "values": shown.values,
    "schema": components()[STATISTICS[name].__name__]["properties"]["part"],
}))
"""
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


def git(*arguments: str, at: Path) -> str:
    # Not a repository itself, nor a part of one: only the files count.
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(at.parent)}
    done = subprocess.run(["git", *arguments], cwd=at, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Copy:
    """A copy of the tree with a patch applied, its commands run in a directory of their own.

    Attributes:
        touched: the files that the patch adds or changes.
    """

    root: Path
    touched: list[str]
    directory: Path

    def python(self, *arguments: str, stdin: str = "", **more: Path) -> str:
        """Run Python on the copy, and return what it prints, whatever it ends with."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=more.get("cwd", self.directory),
            env=environment | {"PYTHONPATH": str(self.root), "COLUMNS": "120"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def run(self, *commands: Sequence[str], stdin: str = "") -> list[str]:
        """Run some of the product's commands in one process, and return what each prints."""
        output = self.python("-c", RUN, stdin=json.dumps([commands, stdin]))
        return [json.loads(line) for line in output.splitlines()]

    def rows(self, *commands: Sequence[str], stdin: str = "") -> list[list[dict[str, object]]]:
        """Do the same, and return what each prints as JSON."""
        printed = self.run(*[[*command, "--json"] for command in commands], stdin=stdin)
        return [
            [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            for output in printed
        ]


def patched(name: str, directory: Path) -> Copy:
    root, run = directory / "copy", directory / "run"
    run.mkdir()
    for part in ("accountant", "streams", "tests"):
        unused = shutil.ignore_patterns("__pycache__", "vectors")
        shutil.copytree(ROOT / part, root / part, ignore=unused)
    shutil.copy(ROOT / "pyproject.toml", root)
    patch = str(HERE / name)
    git("apply", "-C1", patch, at=root)
    counted = git("apply", "--numstat", patch, at=root).splitlines()
    copy = Copy(root, sorted(line.split("\t")[2] for line in counted), run)
    where = copy.python("-c", "import accountant; print(accountant.__file__)").strip()
    assert Path(where).is_relative_to(root), where
    return copy


@pytest.fixture(scope="module")
def with_filter(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return patched("filter.patch", tmp_path_factory.mktemp("filter"))


@pytest.fixture(scope="module")
def with_claim(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return patched("claim.patch", tmp_path_factory.mktemp("claim"))


@pytest.fixture(scope="module")
def with_statistic(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return patched("statistic.patch", tmp_path_factory.mktemp("statistic"))


ASK = ("ask", "census", "--analyst", "ana")


class TestAFilter:
    """`limited`: as `basic`, but of `answers` claims at most that cost something."""

    BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--claim", "pure:0.1", "--filter", "limited")
    POLICY = '{"filter": "limited", "epsilon": "1", "delta": "1e-6", "answers": "2"}'

    @pytest.fixture
    def policy(self, with_filter: Copy) -> str:
        (with_filter.directory / "policy.json").write_text(self.POLICY)
        return "policy.json"

    def test_is_four_files(self, with_filter: Copy) -> None:
        assert len(with_filter.touched) <= 4, with_filter.touched
        assert "accountant/filters/limited.py" in with_filter.touched

    def test_opens_grants_refuses_and_is_audited(self, with_filter: Copy, policy: str) -> None:
        (opened,), *output, (shown,), audited = with_filter.rows(
            ("dataset", "open", "census", "--policy", policy),
            *[(*ASK, "pure:0.1")] * 3,
            ("dataset", "show", "census"),
            ("audit",),
        )
        assert opened["outcome"] == "opened", opened
        assert [each["outcome"] for (each,) in output] == ["granted", "granted", "refused"]
        assert output[-1][0]["reason"] == "exhausted"
        assert shown["left"] == {"epsilon": "0.8", "delta": "0", "answers": "0"}
        assert audited[0]["audit"] == "ok"

    def test_fits_has_its_option(self, with_filter: Copy) -> None:
        found, missing, output = with_filter.run(
            ("fits", *self.BUDGET, "--answers", "2", "--json"),
            ("fits", *self.BUDGET),
            ("fits", "--help"),
        )
        row = json.loads(found)
        assert (row["fits"], row["answers"]) == (2, "2")
        assert "--answers is missing: it must be given for filter limited" in missing
        assert "add --answers 10" in missing
        assert "How many answers limited admits." in output

    def test_compare_shows_the_added_filter_as_the_policys_own_and_as_another(
        self, with_filter: Copy, policy: str
    ) -> None:
        body = {"version": 1, "type": "request", "analyst": "ana", "dataset": "census"}
        body |= {"claim": {"type": "pure", "epsilon": "0.1"}}
        body |= {"unit": "person", "neighbours": "add_remove"}
        ids = [uuid7(1_795_000_000_000 + i, i.to_bytes(10, "big")) for i in range(20)]
        lines = "\n".join(json.dumps(body | {"request_id": each}) for each in ids)
        (rows,) = with_filter.rows(("compare", "--policy", policy), stdin=lines)
        filters = {row["name"]: row for row in rows if row["kind"] == "filter"}
        own = filters["limited"]
        assert (own["own"], own["settings"], own["admitted"]) == (True, "answers=2", 2)
        assert filters["basic"]["admitted"] > 2

    def test_is_under_the_rules_of_all_filters(self, with_filter: Copy) -> None:
        # Some tests have a filter as a parameter, others loop over all filters.
        of_one = (
            "tests/research/games/test_filter_coverage.py",
            "tests/accountant/ledger/test_largest_fit.py",
            "tests/streams/client/test_every_filter.py",
        )
        of_all = (
            "tests/accountant/filters/test_filters.py",
            "tests/streams/metrics/test_filters.py",
        )
        for least, run in ((6, (*of_one, "-k", "limited")), (40, of_all)):
            output = with_filter.python(*PYTEST, *run, cwd=with_filter.root)
            last = output.splitlines()[-1]
            passed = re.match(r"(\d+) passed(, \d+ deselected)? in ", last)
            assert passed, output
            assert int(passed[1]) >= least, last


class TestAClaim:
    """`geometric`: two-sided geometric noise on a count."""

    CLAIM = "geometric:scale=10,sensitivity=1"

    def test_is_two_files(self, with_claim: Copy) -> None:
        assert len(with_claim.touched) <= 2, with_claim.touched

    def test_is_granted_charged_and_audited(self, with_claim: Copy) -> None:
        policy = ("--epsilon", "0.15", "--filter", "basic", "--most-per-request", "1")
        (opened,), *output, (shown,), audited = with_claim.rows(
            ("dataset", "open", "census", *policy),
            *[(*ASK, self.CLAIM)] * 2,
            ("dataset", "show", "census"),
            ("audit",),
        )
        assert opened["outcome"] == "opened", opened
        assert [each["outcome"] for (each,) in output] == ["granted", "refused"]
        assert output[-1][0]["fits"] == "geometric:scale=20,sensitivity=1"
        assert shown["left"] == {"epsilon": "0.05", "delta": "0"}
        assert audited[0]["audit"] == "ok"

    def test_fits_counts_the_added_claim_under_every_filter_of_pure_claims(
        self, with_claim: Copy
    ) -> None:
        budget = ("--epsilon", "1", "--delta", "1e-6", "--filter", "all")
        asked = [("fits", *budget, "--claim", each) for each in (self.CLAIM, "pure:0.1")]
        both = [{row["filter"]: row["fits"] for row in rows} for rows in with_claim.rows(*asked)]
        assert both[0] == both[1]
        assert both[0]["basic"] == 10


class TestAStatistic:
    """`trimmed_mean`: the mean of the values in the middle of a column's bounds."""

    TEXT = "trimmed_mean(age, 0.1) by region"

    def test_is_five_files(self, with_statistic: Copy) -> None:
        assert len(with_statistic.touched) <= 5, with_statistic.touched

    def test_is_asked_derived_answered_rebuilt_and_on_the_page(self, with_statistic: Copy) -> None:
        stdin = json.dumps([self.TEXT, "trimmed_mean"])
        found = json.loads(with_statistic.python("-c", ASK_ADDED, stdin=stdin))
        assert found["claim"] == "pure:1+pure:1"
        north, *others = found["values"]
        assert 58 < float(north) < 62
        assert others == [None, None], "their counts may be of no rows"
        assert found["schema"]["type"] == "string"

    def test_tests_name_it_where_they_lack_it(self, with_statistic: Copy) -> None:
        questions = "tests/accountant/questions"
        lists = (
            f"{questions}/test_tables.py",
            f"{questions}/test_neighbouring_tables.py::test_each_kind_of_question_is_compared_with_tables",
            "tests/streams/sources/test_differential.py::test_each_statistic_is_compared",
        )
        output = with_statistic.python(*PYTEST, *lists, cwd=with_statistic.root)
        assert re.search(r"^4 failed, 3 passed in ", output.splitlines()[-1]), output
        assert "trimmed_mean" in output
