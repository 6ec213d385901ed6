"""A run is recorded as it was, and sets the order of the next one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durations import record
from tests.durations.order import longest_files_first
from tests.durations.recorder import Sum
from tests.durations.report import Run, directory_of, printed

ROOT = Path(__file__).parents[2]
SUITE = {
    "test_busy.py": """
import subprocess, sys, time, pytest

BUSY = "import time\\nwhile time.process_time() < 0.4: pass"

@pytest.fixture
def slow():
    time.sleep(0.2)

@pytest.mark.parametrize("n", [1, 2])
def test_child(n):
    subprocess.run([sys.executable, "-c", BUSY], check=True)

def test_fixture(slow):
    pass
""",
    "test_quick.py": "def test_quick():\n    pass\n",
    "conftest.py": """
from pathlib import Path
from tests.durations.recorder import Recorder

def pytest_configure(config):
    config.pluginmanager.register(Recorder(Path("records")))
""",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The record of two test files, run by two workers."""
    directory = tmp_path_factory.mktemp("suite")
    for name, text in SUITE.items():
        (directory / name).write_text(text)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # most plugins take longer than these tests
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "xdist.plugin",
            "-n2",
            f"--rootdir={directory}",
            "-c",
            os.devnull,
        ],
        cwd=directory,
        env=kept | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return Run.read(directory / "records")


def test_children_count_and_parameters_are_one_function(run: Run) -> None:
    child = run.tests["test_busy.py::test_child"]
    assert child.items == 2
    # Processor time comes in hundredths, and a child's is rounded. Each parameter's is 0.4.
    assert child.cpu > 0.7
    assert run.tests["test_quick.py::test_quick"].cpu < 0.4
    # The controller would count all workers once more.
    assert -0.05 < run.total - child.cpu - run.collection < 1


def test_a_fixture_is_recorded_by_its_name_and_counts_for_its_test(run: Run) -> None:
    (name,) = [name for name in run.fixtures if name.endswith("::slow")]
    assert run.fixtures[name].wall >= 0.2
    assert run.tests["test_busy.py::test_fixture"].wall >= 0.2


def test_a_test_that_took_long_is_slow(request: pytest.FixtureRequest) -> None:
    took = {
        "a.py::test_computes": (0.3, 0.3),
        "a.py::test_waits": (0.1, 0.6),
        "a.py::test_short": (0.1, 0.5),
    }
    assert record.slow_tests(took) == {"a.py::test_computes", "a.py::test_waits"}
    slow = record.slow_tests(record.recorded())
    marked = {item for item in request.session.items if item.get_closest_marker("slow")}
    assert not [
        item.nodeid
        for item in request.session.items
        if item.nodeid.partition("[")[0] in slow and item not in marked
    ]
    assert len(marked) < len(request.session.items)


def test_the_garbage_collector_passes_over_what_was_collected() -> None:
    assert gc.isenabled()
    # It lists the objects that it looks at.
    assert not any(each is globals() for each in gc.get_objects())


def test_the_report_names_each_new_test_beyond_the_limit() -> None:
    new = {"tests/docs/test_a.py::test_new": Sum(1, 61.0, 70.0, 70.0)}
    text = printed(Run(new, {}, 1.0, 0.0, 62.0), {"tests/docs/test_a.py::test_old"})
    assert "1 functions, 61.0 CPU s; an issue may add 60" in text
    assert "tests/docs/test_a.py::test_new" in text


def test_large_directories_are_shown_by_their_parts() -> None:
    assert directory_of("tests/streams/auth/sub/test_a.py::test_b") == "tests/streams/auth"
    assert directory_of("tests/kafka/sub/test_a.py::test_b") == "tests/kafka"
    assert directory_of("tests/test_a.py::test_b") == "tests"


def test_the_longest_file_comes_first_in_one_piece(tmp_path: Path) -> None:
    file = tmp_path / "recorded.json"
    took = {"a.py::one": 1.0, "b.py::two": 5.0, "b.py::three": 0.1}
    record.write({name: Sum(1, wall, wall, wall) for name, wall in took.items()}, file)

    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid = nodeid

    names = ["a.py::one", "b.py::two", "new.py::four", "b.py::three[x]"]
    items = [Item(name) for name in names]
    longest_files_first(items, record.recorded(file))  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == [
        "new.py::four",
        "b.py::two",
        "b.py::three[x]",
        "a.py::one",
    ]
