"""Draws pictures with matplotlib, which only this module imports."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from research.figures.picture import Panel, Picture

# Okabe and Ito's colours, which people with any colour vision tell apart; the dashes help where
# a figure is printed in grey.
_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "basic": {"color": "#000000"},
    "advanced_2016": {"color": "#E69F00"},
    "advanced_2016_n": {"color": "#D55E00"},
    "fully_adaptive": {"color": "#56B4E9"},
    "zcdp_tight": {"color": "#0072B2"},
    # Where requests are Gaussian it admits what zcdp_tight does, which is drawn over it.
    "renyi": {"color": "#E8B4CF", "linewidth": 5.0},
    "gdp_residue": {"color": "#009E73"},
    "linear": {"color": "#56B4E9"},
    "mixture": {"color": "#0072B2"},
    # Nearly the same as the exact root, which is drawn over it.
    "one_sided_mixture": {"color": "#9FDCC8", "linewidth": 5.0},
    "one_sided_mixture_exact": {"color": "#009E73"},
    "stitched": {"color": "#CC79A7"},
    "strong": {"color": "#7F7F7F"},
    "optimum": {"color": "#D55E00"},
    "bound": {"color": "#D55E00"},
    "gaussian": {"color": "#E69F00"},
    "doubling": {"color": "#E69F00"},
    "ex_post": {"color": "#D55E00"},
    "known": {"color": "#7F7F7F"},
}
_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "accountant",
}
_DPI: Final = 120
_COLOURS: Final = 96
_DIGITS: Final = 6
WIDTH, HEIGHT = 5.4, 4.1
"""Of one panel, in inches, its legend not counted."""


def draw(picture: Picture) -> Figure:
    """Return the drawn figure, its legend below the panels so that it covers no curve."""
    with mpl.rc_context(_STYLE):
        labels = {curve.label: curve for panel in picture.panels for curve in panel.curves}
        columns = 2 if len(picture.panels) == 1 else 3
        rows = -(-len(labels) // columns)
        wide = len(picture.panels) * WIDTH + (1.2 if len(picture.panels) == 1 else 0.0)
        figure = Figure(figsize=(wide, HEIGHT + 0.45 + 0.24 * rows), layout="constrained")
        figure.suptitle(picture.title, fontweight="bold", fontsize=12)
        handles: dict[str, Any] = {}
        axes = figure.subplots(1, len(picture.panels), squeeze=False)[0]
        for panel, on in zip(picture.panels, axes, strict=True):
            _draw_panel(panel, on)
            handles |= {str(line.get_label()): line for line in on.get_lines() if line.get_gid()}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
        return figure


def _draw_panel(panel: Panel, on: Axes) -> None:
    for curve in panel.curves:
        look = {"linestyle": "-" if curve.adaptive else (0, (4, 2))} | _LOOKS[curve.key]
        on.plot(curve.x, curve.y, label=curve.label, gid=curve.key, **look)
        if curve.measured:
            circles = {"markerfacecolor": "white", "color": look["color"], "markersize": 5}
            on.plot(*zip(*curve.measured, strict=True), "o", **circles)
    on.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    on.set_xscale(panel.x_scale)
    on.set_yscale(panel.y_scale)
    for axis, scale in ((on.xaxis, panel.x_scale), (on.yaxis, panel.y_scale)):
        if scale == "log":
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axis.set_minor_formatter(NullFormatter())
    if panel.y_range is not None:
        on.set_ylim(*panel.y_range)
    elif panel.y_scale == "linear":
        on.set_ylim(bottom=0)
    on.margins(x=0.02)
    for mark in panel.marks:
        on.plot([mark.x], [mark.y], "o", color="#000000", markersize=4)
        on.annotate(
            mark.text, (mark.x, mark.y), xytext=(mark.dx, mark.dy), textcoords="offset points"
        )


def digest(picture: Picture) -> str:
    """Return a hash of all that a picture shows, numbers to 6 digits: to tell a stale copy."""
    shown = [
        [panel.title, panel.x_label, panel.y_label]
        + [[curve.label, _rounded(curve.x), _rounded(curve.y)] for curve in panel.curves]
        + [_rounded(point) for curve in panel.curves for point in curve.measured]
        for panel in picture.panels
    ]
    return hashlib.sha256(msgspec.json.encode([picture.title, shown])).hexdigest()


def _rounded(values: tuple[float, ...]) -> list[str]:
    return [f"{value:.{_DIGITS}g}" for value in values]


def save(picture: Picture, directory: Path, *, kind: str = "png") -> Path:
    """Draw a picture into a file named after it, and return that.

    The file carries `digest` and no date: the same picture gives the same file.
    """
    path = directory / f"{picture.name}.{kind}"
    described = f"{picture.source}. sha256:{digest(picture)}"
    metadata: dict[str, Any] = {"Title": picture.title, "Description": described}
    if kind == "svg":
        metadata["Date"] = None
    elif kind == "pdf":
        metadata = {"Title": picture.title, "Subject": described, "CreationDate": None}
    with mpl.rc_context(_STYLE):
        figure = draw(picture)
        if kind == "png":
            _save_png(figure, path, metadata)
        else:
            figure.savefig(path, metadata=metadata)
    return path


def _save_png(figure: Figure, path: Path, metadata: dict[str, str]) -> None:
    """Write a PNG of few colours, a third of the usual size."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI)
    info = PngInfo()
    for key, text in metadata.items():
        info.add_itxt(key, text)
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(path, pnginfo=info, optimize=True)
