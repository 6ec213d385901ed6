"""The oracle shares no code with the product: otherwise it could repeat its mistakes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

OPENS = ("tests/faults/oracle/*",)

HERE = Path(__file__).parent / "oracle"
OWN = "tests.faults.oracle"
ALLOWED = {"apsw", "mpmath", "confluent_kafka", "cryptography"}


def imported(file: Path) -> set[str]:
    """Return the full names of the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, file
            found.add(node.module or "")
    return found


def test_the_oracle_imports_nothing_of_the_product_nor_of_other_tests() -> None:
    files = sorted(HERE.glob("**/*.py"))
    assert len(files) > 10
    for file in files:
        for name in imported(file):
            root = name.partition(".")[0]
            mine = name == OWN or name.startswith(OWN + ".")
            assert mine or root in ALLOWED or root in sys.stdlib_module_names, (file.name, name)


def test_the_oracle_loads_nothing_by_name() -> None:
    for file in HERE.glob("**/*.py"):
        text = file.read_text()
        assert "importlib" not in text, file.name
        assert "__import__" not in text, file.name
