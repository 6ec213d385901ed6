"""A dashboard: the layout of its panels, its variables, and what all dashboards have in common."""

from __future__ import annotations

from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import table
from grafana_foundation_sdk.models.common import DataSourceRef

COLUMNS: Final = 24
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG: Final = "privacy"
UIDS: Final = {
    "overview": "privacy-overview",
    "dataset": "privacy-dataset",
    "service": "privacy-service",
}


class Board:
    """Panels from left to right and from top to bottom, each with a fixed id.

    The caller chooses the ids: links to a panel then survive when another panel comes before it.

    Args:
        since: the start of the time range at first, such as now-6h.
        runbooks: address where people read docs/runbooks.md.
    """

    def __init__(
        self, name: str, title: str, description: str, *, since: str, runbooks: str
    ) -> None:
        self._ids: set[int] = set()
        self._x = self._y = self._height = 0
        self._board = (
            build.Dashboard(title)
            .uid(UIDS[name])
            .description(description)
            .tags([TAG])
            .time(since, "now")
            .refresh("30s")
            .timezone("browser")
            .tooltip(model.DashboardCursorSync.CROSSHAIR)
            .readonly()
            .with_variable(
                build.DatasourceVariable("datasource").label("Data source").type("prometheus")
            )
            .with_variable(build.ConstantVariable("runbooks").value(runbooks))
        )
        for other, uid in UIDS.items():
            if other != name:
                self._board.link(_dashboard_link(other, uid))
        self._board.link(
            build.DashboardLink("Runbooks")
            .type(model.DashboardLinkType.LINK)
            .url("${runbooks}")
            .icon("doc")
            .target_blank(True)
        )

    def choose(self, name: str, query: str, *, label: str, several: bool = False) -> Board:
        """Add a variable with values from Prometheus; with `several`, all are chosen at first."""
        variable = (
            build.QueryVariable(name)
            .label(label)
            .datasource(SOURCE)
            .query({"qryType": 1, "query": query, "refId": f"variable-{name}"})
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.ALPHABETICAL_ASC)
        )
        if several:
            everything = model.VariableOption(selected=True, text="All", value="$__all")
            variable.multi(True).include_all(True).all_value(".*").current(everything)
        self._board.with_variable(variable)
        return self

    def alerts(self, matchers: str) -> Board:
        """Mark the start and end of each alert on every graph."""
        expr = f'ALERTS{{alertstate="firing",{matchers}}}'
        self._board.annotation(
            build.AnnotationQuery()
            .name("Alerts")
            .datasource(SOURCE)
            .enable(True)
            .icon_color("red")
            .title_format("{{alertname}}")
            .text_format("{{dataset}}{{topic}} {{severity}}")
            .tag_keys("severity")
            .target(prometheus.Dataquery().expr(expr).ref_id("alerts").interval("60s"))
        )
        return self

    def row(self, title: str, *, panel_id: int) -> Board:
        """Start a new section with a heading."""
        self._wrap()
        place = model.GridPos(h=1, w=COLUMNS, x=0, y=self._y)
        self._board.with_row(build.Row(title).id(self._new(panel_id)).grid_pos(place))
        self._y += 1
        return self

    def add(self, panel: Builder[model.Panel], *, panel_id: int, width: int, height: int) -> Board:
        """Put a panel next to the one before it, or below if it does not fit."""
        assert 0 < width <= COLUMNS
        if self._x + width > COLUMNS:
            self._wrap()
        built = panel.build()
        built.id_val = self._new(panel_id)
        built.grid_pos = model.GridPos(h=height, w=width, x=self._x, y=self._y)
        self._board.with_panel(_FinishedPanel(built))
        self._x += width
        self._height = max(self._height, height)
        return self

    def build(self) -> model.Dashboard:
        """Return the dashboard for the encoder."""
        board = self._board.build()
        # The SDK puts links and annotations into the folded controls menu; show them instead.
        for shown in (*(board.links or ()), *(board.annotations.list_val or ())):
            shown.placement = None
        # It also writes fields of another type of variables, and a footer that tables no longer
        # have: Grafana's own types of 13.2 have neither.
        for variable in board.templating.list_val or ():
            variable.auto = variable.auto_min = variable.auto_count = None
        for panel in board.panels or ():
            if isinstance(panel, model.Panel) and isinstance(panel.options, table.Options):
                panel.options.footer = None
        return board

    def _wrap(self) -> None:
        self._y += self._height
        self._x = self._height = 0

    def _new(self, panel_id: int) -> int:
        assert panel_id not in self._ids, f"panel {panel_id} twice"
        self._ids.add(panel_id)
        return panel_id


class _FinishedPanel(Builder[model.Panel]):
    """A finished panel as a builder, for an interface that takes builders only."""

    def __init__(self, panel: model.Panel) -> None:
        self._panel = panel

    def build(self) -> model.Panel:
        return self._panel


def _dashboard_link(name: str, uid: str) -> build.DashboardLink:
    return (
        build.DashboardLink(name.capitalize())
        .type(model.DashboardLinkType.LINK)
        .url(f"/d/{uid}")
        .icon("dashboard")
        .keep_time(True)
        .include_vars(True)
    )


def override(name: str, **properties: Any) -> tuple[model.MatcherConfig, list[Any]]:
    """Return the override of a field's properties; `__` in a key means a dot."""
    matcher = model.MatcherConfig(id_val="byName", options=name)
    values = [
        model.DynamicConfigValue(id_val=key.replace("__", "."), value=value)
        for key, value in properties.items()
    ]
    return matcher, values
