from __future__ import annotations

import pytest

from tests.streams.cli.conftest import ROOT, environment


def test_a_figure_is_a_file_named_after_it(accountant):
    done = accountant("figures", "--out", "drawn", "--only", "odometers_2016", "--json")
    assert done.code == 0, done.err
    assert done.json == {"figure": "odometers_2016", "file": "drawn/odometers_2016.png"}
    assert (accountant.directory / "drawn/odometers_2016.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_other_formats(accountant, kind, start):
    done = accountant("figures", "--out", ".", "--only", "odometers", "--format", kind)
    assert done.code == 0, done.err
    assert (accountant.directory / f"odometers.{kind}").read_bytes().startswith(start)


@pytest.mark.parametrize("wrong", [("--format", "gif"), ("--only", "magic")])
def test_wrong_values_are_named(accountant, wrong):
    done = accountant("figures", "--out", ".", *wrong)
    assert done.code == 2
    assert wrong[0] in done.err


def test_without_matplotlib_it_says_what_to_install(accountant):
    missing = accountant.directory / "without" / "matplotlib"
    missing.mkdir(parents=True)
    text = "raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')\n"
    (missing / "__init__.py").write_text(text)
    path = f"{missing.parent}:{ROOT}"
    process = accountant.start("figures", "--out", ".", env=environment(PYTHONPATH=path))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "[plots]" in err
