"""The kinds of panels in the dashboards, each with its title, description, units and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import text as markdown
from grafana_foundation_sdk.models import common as shared
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import text as text_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.dashboards.board import SOURCE, override

Steps = Sequence[tuple[float | None, str]]
Overrides = Sequence[tuple[model.MatcherConfig, list[Any]]]

NEUTRAL: Final[Steps] = ((None, "blue"),)
NONE_IS_GOOD: Final[Steps] = ((None, "green"), (1, "red"))

_ROBUST = ("lastNotNull",)


def query(expr: str, legend: str = "", *, ref: str = "A", **kind: bool) -> prometheus.Dataquery:
    """Return one PromQL query.

    Args:
        legend: name of each series, with labels as `{{dataset}}`.
        kind: `instant` for the present value only, `table` for one as rows,
            `exemplar` to show example requests of a histogram.
    """
    made = prometheus.Dataquery().expr(expr).ref_id(ref).legend_format(legend or "__auto")
    if kind.get("table"):
        return made.instant().format(PromQueryFormat.TABLE)
    if kind.get("instant"):
        return made.instant()
    return made.range().exemplar(kind.get("exemplar", False))


def steps(levels: Steps) -> build.ThresholdsConfig:
    """Return colours by value: each applies from its value upwards."""
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in levels])
    )


def words(**texts: tuple[str, str]) -> list[model.ValueMapping]:
    """Return words for whole numbers: `words(_1=("exhausted", "red"))`."""
    named = {
        key.removeprefix("_"): model.ValueMappingResult(text=text, color=color, index=index)
        for index, (key, (text, color)) in enumerate(texts.items())
    }
    return [model.ValueMap(options=named)]


def number(
    title: str,
    description: str,
    queries: Sequence[prometheus.Dataquery],
    *,
    unit: str = "short",
    levels: Steps = NEUTRAL,
    mappings: Sequence[model.ValueMapping] = (),
    nothing: str = "none",
    line: bool = False,
    decimals: int | None = None,
    background: bool = False,
    overrides: Overrides = (),
) -> stat.Panel:
    """Return one large number, or one for each series."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .targets(list(queries))
        .unit(unit)
        .thresholds(steps(levels))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .mappings(list(mappings))
        .no_value(nothing)
        .reduce_options(common.ReduceDataOptions().calcs(list(_ROBUST)).fields("").values(False))
        .graph_mode(shared.BigValueGraphMode.AREA if line else shared.BigValueGraphMode.NONE)
        .color_mode(
            shared.BigValueColorMode.BACKGROUND_SOLID
            if background
            else shared.BigValueColorMode.VALUE
        )
        .text_mode(shared.BigValueTextMode.AUTO)
        .justify_mode(shared.BigValueJustifyMode.AUTO)
        .orientation(shared.VizOrientation.AUTO)
        .wide_layout(True)
    )
    for matcher, properties in overrides:
        panel.with_override(matcher, properties)
    return panel if decimals is None else panel.decimals(decimals)


def lines(
    title: str,
    description: str,
    queries: Sequence[prometheus.Dataquery],
    *,
    unit: str = "short",
    axis: str = "",
    levels: Steps = NEUTRAL,
    stacked: bool = False,
    bounds: tuple[float | None, float | None] = (0, None),
    overrides: Overrides = (),
    calcs: Sequence[str] = ("lastNotNull", "max"),
    stepped: bool = False,
    beside: bool = False,
    powers: bool = False,
    decimals: int | None = None,
) -> timeseries.Panel:
    """Return values over time. With more than one level, each is a dashed line.

    Args:
        bounds: lowest value shown, and the highest unless there is a higher one.
        calcs: columns of the legend. `beside` puts it at the right, with room for many series.
        powers: use a logarithmic scale; it cannot show 0.
    """
    drawn = shared.GraphThresholdsStyleMode.DASHED
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .targets(list(queries))
        .unit(unit)
        .axis_label(axis)
        .thresholds(steps(levels))
        .thresholds_style(
            common.GraphThresholdsStyleConfig().mode(
                drawn if len(levels) > 1 else shared.GraphThresholdsStyleMode.OFF
            )
        )
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
        .draw_style(shared.GraphDrawStyle.LINE)
        .line_width(1 if stacked else 2)
        .fill_opacity(30 if stacked else 0)
        .line_interpolation(
            shared.LineInterpolation.STEP_AFTER if stepped else shared.LineInterpolation.LINEAR
        )
        .show_points(shared.VisibilityMode.NEVER)
        .span_nulls(False)
        .stacking(
            common.StackingConfig().mode(
                shared.StackingMode.NORMAL if stacked else shared.StackingMode.NONE
            )
        )
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(shared.LegendDisplayMode.TABLE)
            .placement(shared.LegendPlacement.RIGHT if beside else shared.LegendPlacement.BOTTOM)
            .calcs(list(calcs))
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(shared.TooltipDisplayMode.MULTI)
            .sort(shared.SortOrder.DESCENDING)
        )
    )
    low, high = bounds
    if low is not None:
        panel.min(low)
    if high is not None:
        panel.axis_soft_max(high)
    if decimals is not None:
        panel.decimals(decimals)
    if powers:
        panel.scale_distribution(
            common.ScaleDistributionConfig().type(shared.ScaleDistribution.LOG).log(10)
        )
    for matcher, properties in overrides:
        panel.with_override(matcher, properties)
    return panel


def bars(
    title: str,
    description: str,
    queries: Sequence[prometheus.Dataquery],
    *,
    unit: str = "short",
    levels: Steps = NEUTRAL,
    most: float | None = None,
) -> bargauge.Panel:
    """Return one bar for each series, at its present value."""
    panel = (
        bargauge.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .targets(list(queries))
        .unit(unit)
        .min(0)
        .thresholds(steps(levels))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .no_value("none")
        .reduce_options(common.ReduceDataOptions().calcs(list(_ROBUST)).fields("").values(False))
        .orientation(shared.VizOrientation.HORIZONTAL)
        .display_mode(shared.BarGaugeDisplayMode.BASIC)
        .value_mode(shared.BarGaugeValueMode.COLOR)
        .name_placement(shared.BarGaugeNamePlacement.LEFT)
        .show_unfilled(True)
        .min_viz_width(8)
        .min_viz_height(16)
        .max_viz_height(40)
        .sizing(shared.BarGaugeSizing.AUTO)
        .text(common.VizTextDisplayOptions().title_size(13).value_size(14))
    )
    return panel if most is None else panel.max(most)


def rows(
    title: str,
    description: str,
    queries: Sequence[prometheus.Dataquery],
    columns: dict[str, tuple[str, dict[str, Any]]],
    *,
    sort: str,
    descending: bool = False,
) -> table.Panel:
    """Return a table: one row for each set of labels, one column for each query or label.

    Args:
        columns: by label, or `Value #A` for query A: its title and properties. The table shows
            only these columns, in this order.
        sort: name of the column by which the rows are sorted at first.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .targets(list(queries))
        .thresholds(steps(NEUTRAL))
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .no_value("")
        .show_header(True)
        .cell_height(shared.TableCellHeight.SM)
        .sort_by([common.TableSortByFieldState().display_name(sort).desc(descending)])
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize",
                options={
                    "includeByName": dict.fromkeys(columns, True),
                    "indexByName": {name: index for index, name in enumerate(columns)},
                    "renameByName": {name: shown for name, (shown, _) in columns.items()},
                },
            )
        )
    )
    for shown, properties in columns.values():
        if properties:
            panel.with_override(*override(shown, **properties))
    return panel


def words_to_read(title: str, content: str) -> markdown.Panel:
    """Return a panel of Markdown."""
    return (
        markdown.Panel()
        .title(title)
        .description("What these numbers guarantee, and what they do not.")
        .mode(text_model.TextMode.MARKDOWN)
        .content(content)
    )
