"""What a change selects, on small trees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.selection.selection import Selection, changed_since, graph_of, reached_by, select

OPENS = ()
STARTS = ()


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def selection(root: Path, *changed: str) -> Selection:
    return select(graph_of(root, changed), frozenset(changed))


def selects(root: Path, *changed: str) -> set[str]:
    return {path.rpartition("/")[2] for path in selection(root, *changed).files}


IMPORTS = {
    "whole": "import streams.a",
    "member": "from streams.a import name",
    "module": "from streams import a",
    "in_function": "def test_it():\n    from streams import a",
    "by_name": "import importlib\nSTARTS = ()\nimportlib.import_module('streams.a')",
    "in_a_text": "CODE = '''\nfrom streams.a import name\n'''",
    "in_a_command": "COMMAND = ['-m', 'streams.a']",
    "indirectly": "import streams.b",
}


@pytest.mark.parametrize("how", IMPORTS)
def test_an_import_selects_in_each_way_to_write_it(tmp_path: Path, how: str) -> None:
    files = {"streams/__init__.py": "", "streams/a.py": "", "streams/b.py": "from streams import a"}
    tests = {"tests/test_it.py": IMPORTS[how], "tests/test_other.py": "import streams"}
    assert selects(tree(tmp_path, files | tests), "streams/a.py") == {"test_it.py"}


def test_a_module_runs_the_packages_above_it(tmp_path: Path) -> None:
    files = {"streams/__init__.py": "", "streams/x/__init__.py": "import streams.b"}
    files |= {"streams/x/a.py": "", "streams/b.py": "", "tests/test_it.py": "import streams.x.a"}
    assert selects(tree(tmp_path, files), "streams/b.py") == {"test_it.py"}
    assert selects(tree(tmp_path, files), "streams/__init__.py") == {"test_it.py"}


def test_an_import_for_types_alone_selects_nothing(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import streams.a"
    files = {"streams/a.py": "", "streams/b.py": text, "tests/test_it.py": "import streams.b"}
    assert selects(tree(tmp_path, files), "streams/a.py") == set()


def test_a_package_that_loads_on_demand_selects_by_the_name_that_is_taken(tmp_path: Path) -> None:
    package = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from streams.p.a import A\n    from streams.p.b import B\n"
        "def __getattr__(name):\n    ...\n"
    )
    files = {"streams/p/__init__.py": package, "streams/p/a.py": "", "streams/p/b.py": ""}
    tests = {"tests/test_a.py": "from streams.p import A", "tests/test_p.py": "import streams.p"}
    tests["tests/test_c.py"] = "import streams.p.b"
    root = tree(tmp_path, files | tests)
    assert selects(root, "streams/p/a.py") == {"test_a.py", "test_p.py"}


def test_a_program_finds_what_is_beside_it(tmp_path: Path) -> None:
    files = {"scripts/run.py": "from part import x", "scripts/part.py": ""}
    files["tests/test_it.py"] = "OPENS = STARTS = ()\nPROGRAM = 'run.py'"
    assert selects(tree(tmp_path, files), "scripts/part.py") == {"test_it.py"}


CONFTEST = """
import pytest
import streams.top

@pytest.fixture
def server():
    import streams.server
    return start()

@pytest.fixture
def people(server):
    return server

@pytest.fixture(autouse=True)
def clean():
    import streams.clean

def pytest_configure():
    import streams.hook

def start():
    import streams.helper
"""
MODULES = {f"streams/{name}.py": "" for name in ("top", "server", "clean", "hook", "helper")}
USES = {
    "test_parameter.py": "def test_it(server): ...",
    "test_indirect.py": "def test_it(people): ...",
    "test_mark.py": "import pytest\n@pytest.mark.usefixtures('server')\ndef test_it(): ...",
    "test_by_name.py": "def test_it(request):\n    request.getfixturevalue('server')",
    "test_inherited.py": "from tests.x.suite import Suite",
}
SUITE = "class Suite:\n    def test_it(self, server): ..."


@pytest.mark.parametrize(
    ("changed", "some"), [("top", 0), ("clean", 0), ("hook", 0), ("server", 1), ("helper", 1)]
)
def test_a_fixture_selects_the_tests_that_use_it(tmp_path: Path, changed: str, some: int) -> None:
    tests = {f"tests/x/{name}": text for name, text in USES.items()}
    tests |= {"tests/x/suite.py": SUITE, "tests/x/test_none.py": "def test_it(): ..."}
    tests |= {
        "tests/x/conftest.py": CONFTEST,
        "tests/y/test_elsewhere.py": "def test_it(server): ...",
    }
    root = tree(tmp_path, MODULES | tests)
    # Every user of some fixture may call a function of the conftest: here, an automatic one's.
    others = set() if some and changed == "server" else {"test_none.py"}
    assert selects(root, f"streams/{changed}.py") == {*USES} | others


def test_the_nearest_fixture_of_a_name_and_those_above_it_count(tmp_path: Path) -> None:
    fixture = "import pytest\n@pytest.fixture\ndef server():\n    import streams.{}"
    files = {"streams/a.py": "", "streams/b.py": "", "tests/x/test_it.py": "def test_(server): ..."}
    files |= {"tests/conftest.py": fixture.format("a"), "tests/x/conftest.py": fixture.format("b")}
    root = tree(tmp_path, files)
    assert selects(root, "streams/b.py") == {"test_it.py"}
    assert selects(root, "streams/a.py") == {"test_it.py"}


def test_a_plugin_is_a_conftest_of_all_tests(tmp_path: Path) -> None:
    fixture = "import pytest\n@pytest.fixture\ndef server():\n    import streams.a"
    files = {"streams/a.py": "", "tests/conftest.py": "pytest_plugins = ('tests.shared.servers',)"}
    files["tests/shared/servers.py"] = fixture
    files["tests/x/test_user.py"] = "def test_it(server): ..."
    files["tests/x/test_other.py"] = "def test_it(): ..."
    root = tree(tmp_path, files)
    assert selects(root, "streams/a.py") == {"test_user.py"}
    assert selects(root, "tests/shared/servers.py") == {"test_user.py", "test_other.py"}


OPENING = {
    "here": "from pathlib import Path\nX = Path(__file__).read_text()",
    "of_another": "from tests.roots import ROOT\nX = (ROOT / 'docs').iterdir()",
    "from_the_root": "from pathlib import Path\nX = Path('docs/a.md').read_text()",
    "source": "import inspect\nX = inspect.getsource(inspect)",
}
STARTING = {
    "run": "import subprocess",
    "imported": "from subprocess import run",
    "fork": "import os\nos.fork()",
    "asynchronous": "import asyncio\nX = asyncio.create_subprocess_exec",
    "pool": "from concurrent.futures import ProcessPoolExecutor",
    "computed_name": "import importlib\nX = importlib.import_module(NAME)",
}
ROOTS = "from pathlib import Path\nOPENS = ()\nROOT = Path(__file__).parent"


@pytest.mark.parametrize("text", [*OPENING.values(), *STARTING.values()])
def test_what_opens_or_starts_something_always_runs_until_it_declares(
    tmp_path: Path, text: str
) -> None:
    files = {"streams/a.py": "", "docs/a.md": "", "tests/roots.py": ROOTS}
    files["tests/test_docs.py"] = "OPENS = ('docs/*',)"
    files |= {"tests/test_it.py": text, "tests/helper.py": text}
    files["tests/test_user.py"] = "import tests.helper"
    undeclared = selection(tree(tmp_path, files), "docs/a.md")
    assert undeclared.always == {"tests/test_it.py", "tests/test_user.py"}
    declares = "OPENS = ()\nSTARTS = ()\n"
    tree(tmp_path, {f"tests/{name}.py": declares + text for name in ("test_it", "helper")})
    assert selects(tmp_path, "docs/a.md") == {"test_docs.py"}


def test_a_declaration_selects_also_the_tests_that_use_the_helper(tmp_path: Path) -> None:
    files = {"docs/a/b.md": "", "docs/c.md": "", "streams/a.py": "", "streams/b.py": ""}
    files["tests/helper.py"] = "OPENS = ('docs/**/*.md',)\nSTARTS = ('streams.a',)"
    files |= {
        "tests/test_it.py": "import tests.helper",
        "tests/test_c.py": "OPENS = ('docs/*.md',)",
    }
    root = tree(tmp_path, files)
    assert selects(root, "docs/a/b.md") == {"test_it.py"}
    assert selects(root, "docs/c.md") == {"test_it.py", "test_c.py"}
    assert selects(root, "streams/a.py") == {"test_it.py"}
    assert selects(root, "streams/b.py") == set()


def test_a_declaration_is_a_tuple_of_texts(tmp_path: Path) -> None:
    root = tree(tmp_path, {"tests/test_it.py": "OPENS = ['docs']"})
    with pytest.raises(ValueError, match=r"tests/test_it\.py: OPENS must be a tuple of texts"):
        graph_of(root)


def test_a_command_reaches_its_server_for_tests_that_name_it(tmp_path: Path) -> None:
    files = {
        "streams/server.py": "",
        "streams/cli/serve.py": "def serve():\n    import streams.server",
    }
    files["tests/test_serve.py"] = "import streams.cli.serve\nCOMMAND = '-m streams.cli serve'"
    files["tests/test_other.py"] = "import streams.cli.serve\nCOMMAND = 'dataset'"
    assert selects(tree(tmp_path, files), "streams/server.py") == {"test_serve.py"}


def test_a_module_of_the_command_table_is_reached_by_its_commands_name(tmp_path: Path) -> None:
    files = {
        "streams/cli/command_table.py": 'TABLE = {\n    "ask-many": CommandEntry(\n "many.ask"',
        "streams/cli/many.py": "",
        "streams/cli/root.py": "from streams.cli.command_table import TABLE",
        "tests/helper.py": "import streams.cli.root",
        "tests/test_names.py": "import tests.helper\nCOMMAND = 'ask-many file'",
        "tests/test_other.py": "import tests.helper\nCOMMAND = 'ask file'",
        "tests/test_every.py": "from streams.cli.root import command",
    }
    files["streams/cli/command_table.py"] += ", 1)}"
    root = tree(tmp_path, files)
    assert selects(root, "streams/cli/many.py") == {"test_names.py", "test_every.py"}


def test_a_file_of_a_package_changes_the_modules_beside_it_or_above(tmp_path: Path) -> None:
    files = {
        "streams/shown/render.py": "",
        "streams/shown/templates/x/a.html": "",
        "streams/b.py": "",
    }
    files |= {
        "tests/test_it.py": "import streams.shown.render",
        "tests/test_b.py": "import streams.b",
    }
    assert selects(tree(tmp_path, files), "streams/shown/templates/x/a.html") == {"test_it.py"}


@pytest.mark.parametrize("path", ["pyproject.toml", "requirements/dev.txt", "tests/conftest.py"])
def test_some_files_select_everything(tmp_path: Path, path: str) -> None:
    root = tree(tmp_path, {path: "", "tests/test_it.py": ""})
    made = selection(root, path)
    assert (made.files, made.everything) == ({"tests/test_it.py"}, f"{path} changed")


def test_a_file_that_nothing_declares_selects_everything(tmp_path: Path) -> None:
    made = selection(tree(tmp_path, {"data.csv": "", "tests/test_it.py": ""}), "data.csv")
    assert made.files == {"tests/test_it.py"}
    assert made.everything == "no test declares that it opens data.csv"


def test_a_deleted_module_selects_what_imports_it(tmp_path: Path) -> None:
    files = {"tests/test_it.py": "from streams import gone", "streams/__init__.py": ""}
    assert selects(tree(tmp_path, files), "streams/gone.py") == {"test_it.py"}


def test_direct_importers_and_the_mirrored_directory_are_repeated(tmp_path: Path) -> None:
    files = {"streams/a/__init__.py": "from streams.a.x import X", "streams/a/x.py": "X = 1"}
    files |= {"streams/b.py": "import streams.a", "tests/changed/test_it.py": ""}
    tests = {
        "tests/test_direct.py": "import streams.a.x",
        "tests/test_passed_on.py": "from streams.a import X",
        "tests/streams/a/test_mirrored.py": "import streams.b",
        "tests/test_indirect.py": "import streams.b",
    }
    made = selection(tree(tmp_path, files | tests), "streams/a/x.py", "tests/changed/test_it.py")
    assert made.others == {"tests/test_indirect.py"}
    assert made.directly == (tests.keys() | {"tests/changed/test_it.py"}) - made.others


def test_the_reach_of_a_directory_leaves_out_what_always_runs(tmp_path: Path) -> None:
    files = {"streams/shown/a.py": "", "tests/test_it.py": "import streams.shown.a"}
    files["tests/test_always.py"] = "import subprocess"
    assert reached_by(graph_of(tree(tmp_path, files)), "streams/shown") == ["tests/test_it.py"]


def test_changes_since_a_commit_include_new_and_deleted_files(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "", "b.py": "", "c.py": "", ".gitignore": "*.db"})
    person = ("-c", "user.name=ana", "-c", "user.email=ana@example.org")
    for command in (("init", "-q"), ("add", "."), (*person, "commit", "-qm", "Add")):
        subprocess.run(["git", *command], cwd=root, check=True)
    assert changed_since(root, "HEAD") == frozenset()
    (root / "a.py").unlink()
    tree(root, {"b.py": "x = 1", "new file.py": "", "ledger.db": ""})
    assert changed_since(root, "HEAD") == {"a.py", "b.py", "new file.py"}
    with pytest.raises(subprocess.CalledProcessError):
        changed_since(root, "no-such-commit")
