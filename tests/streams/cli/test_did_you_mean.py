"""Words that a command does not know: it says which known one comes near."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["dataset", "opne", "x"], "open"),
        (["ask", "d", "gausian:1,1", "--analyst", "ann"], "gaussian"),
        (["ask", "d", "pure:1", "--analyst", "ann", "--neighbours", "add-remove"], "add_remove"),
        (["ask", "d", "pure:1", "--anlyst", "ann"], "--analyst"),
        (["dataset", "open", "d", "--epsilon", "1", "--filter", "zcdp-tight"], "zcdp_tight"),
        (["dataset", "open", "d", "--epsilon", "1", "--neighbours", "replaced"], "replace"),
        (["fits", "--claim", "pure:1", "--epsilon", "1", "--filter", "basik"], "basic"),
    ],
)
def test_an_unknown_word_is_told_the_one_that_comes_near(accountant, arguments, meant):
    done = accountant(*arguments)
    assert done.code == 2
    assert meant in done.err.rpartition("ossible options" if meant[0] == "-" else "id you mean")[2]


def test_an_unknown_field_of_a_policys_file_is_told_the_one_that_comes_near(accountant, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"epsilonn": "1"}))
    done = accountant("dataset", "open", "d", "--policy", str(path))
    assert done.code == 2
    assert "did you mean epsilon?" in done.err
