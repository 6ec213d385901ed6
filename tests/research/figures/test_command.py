"""`make figures`, by the program that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.figures.__main__ import main


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_command_writes_each_figure_to_a_file_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, start: bytes
) -> None:
    out = tmp_path / "drawn"
    main(["--out", str(out), "--only", "odometers_2016", "--format", kind])
    assert capsys.readouterr().out == f"{out}/odometers_2016.{kind}\n"
    assert (out / f"odometers_2016.{kind}").read_bytes().startswith(start)


@pytest.mark.parametrize("wrong", [("--format", "gif"), ("--only", "magic")])
def test_wrong_values_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--out", str(tmp_path), *wrong])
    assert raised.value.code == 2
    printed = capsys.readouterr().err
    assert wrong[0] in printed
    assert wrong[1] in printed
