"""The pictures can be read: nothing covers a curve, every curve differs from every other."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from research.figures import PICTURES, Picture
from research.figures.drawing import digest, draw, save
from tests.nightly import NIGHTLY

OPENS = ("docs/figures/*",)

DRAWN = Path(__file__).parents[3] / "docs" / "figures"
LONG = {"accuracy_first", "admitted", "experiment", "filters", "lecture", "residue"}  # seconds each
NIGHTLY_ONLY = {"experiment"}  # half a minute of simulated runs
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
    for name in PICTURES
    if NIGHTLY or name not in NIGHTLY_ONLY
]


@cache
def picture(name: str) -> Picture:
    return PICTURES[name]()


@cache
def rendered(name: str):
    figure = draw(picture(name))
    FigureCanvasAgg(figure).draw()
    return figure


@pytest.mark.parametrize("name", NAMES)
def test_the_legend_is_outside_of_the_panels_and_within_the_figure(name):
    figure = rendered(name)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
    for axes in figure.axes:
        assert not box.overlaps(axes.get_tightbbox())
        assert axes.get_legend() is None


@pytest.mark.parametrize("name", NAMES)
def test_every_curve_is_in_the_legend_and_looks_like_no_other_of_its_panel(name):
    figure = rendered(name)
    (legend,) = figure.legends
    labels = {text.get_text() for text in legend.get_texts()}
    for panel, axes in zip(picture(name).panels, figure.axes, strict=True):
        lines = [line for line in axes.get_lines() if line.get_gid()]
        assert [line.get_label() for line in lines] == [curve.label for curve in panel.curves]
        assert {line.get_label() for line in lines} <= labels
        looks = {(to_hex(line.get_color()), line.get_linestyle()) for line in lines}
        assert len(looks) == len(lines)


@pytest.mark.parametrize("name", NAMES)
def test_axes_have_labels_and_remarks_cover_no_curve(name):
    figure = rendered(name)
    for panel, axes in zip(picture(name).panels, figure.axes, strict=True):
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == len(panel.marks)
        for line in axes.get_lines():
            if not line.get_gid():
                continue
            places = axes.transData.transform(line.get_xydata())
            for box in boxes:
                assert not any(box.contains(x, y) for x, y in places), (panel.title, line)


@pytest.mark.parametrize("name", NAMES)
def test_curves_that_are_no_adaptive_bounds_are_dashed(name):
    for panel, axes in zip(picture(name).panels, rendered(name).axes, strict=True):
        lines = [line for line in axes.get_lines() if line.get_gid()]
        for curve, line in zip(panel.curves, lines, strict=True):
            assert (line.get_linestyle() == "-") == curve.adaptive


@pytest.mark.parametrize("name", NAMES)
def test_committed_figures_match_the_code_that_draws_them(name):
    """`make figures` draws them again."""
    carried = re.findall(rb"sha256:([0-9a-f]{64})", (DRAWN / f"{name}.png").read_bytes())
    assert carried == [digest(picture(name)).encode()]


def test_no_other_figure_is_committed():
    assert {path.stem for path in DRAWN.iterdir()} == set(PICTURES)


def test_the_same_picture_is_the_same_file(tmp_path):
    first = save(picture("odometers_2016"), tmp_path).read_bytes()
    assert save(picture("odometers_2016"), tmp_path).read_bytes() == first
