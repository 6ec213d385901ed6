"""What a figure shows, as numbers: curves in panels. Nothing here draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scale = Literal["linear", "log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line.

    Attributes:
        key: what it is, such as a filter's name; the same key looks the same in every figure.
        label: in the legend.
        x, y: in the units that the panel's labels name.
        adaptive: it is a bound where parameters depend on earlier outcomes, or where one looks
            at any time; drawn dashed where it is not.
        measured: points (x, y) that a run measured, drawn as circles.
    """

    key: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    adaptive: bool = True
    measured: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point with a remark. `dx`, `dy` move the text, in points."""

    x: float
    y: float
    text: str
    dx: float = 12
    dy: float = -18


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes, whose labels carry the units."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    y_range: tuple[float, float] | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure: its name (of the file, too), what it shows, and where that comes from."""

    name: str
    title: str
    source: str
    panels: tuple[Panel, ...]


def logarithmic(minimum: float, maximum: float, points: int) -> tuple[float, ...]:
    """Return points from `minimum` to `maximum` whose logarithms are evenly spaced."""
    ratio = maximum / minimum
    return tuple(minimum * ratio ** (i / (points - 1)) for i in range(points))


def even(minimum: float, maximum: float, points: int) -> tuple[float, ...]:
    """Return evenly spaced points from `minimum` to `maximum`."""
    return tuple(minimum + (maximum - minimum) * i / (points - 1) for i in range(points))
