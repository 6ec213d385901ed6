"""The committed dashboards: current, well laid out, and understandable without asking."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from pathlib import Path

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.dashboards.__main__ import BOARDS, WRITTEN, text
from deploy.grafana.dashboards.board import UIDS
from tests.every_case import every_case
from tests.rendering.asking import panels

OPENS = ("docs/reference/metrics/*", "deploy/**")

ROOT = Path(__file__).parents[2]
COLUMNS = 24
KINDS = {"bargauge", "stat", "table", "text", "timeseries"}
# Of Prometheus itself and of every process of ours, described by those who make them.
FOREIGN = {"ALERTS", "up", "process_start_time_seconds", "process_cpu_seconds_total"}
FOREIGN |= {"process_resident_memory_bytes"}
BUILT_IN = {"__rate_interval", "__range", "__interval", "__value.raw", "__url_time_range"}
SUFFIXES = ("_bucket", "_sum", "_count")


def board(name):
    return json.loads((WRITTEN / f"{name}.json").read_text(encoding="utf-8"))


def everything(name):
    """All panels, rows included."""
    return board(name)["panels"]


def queries(name):
    return [(panel["title"], target) for panel in with_targets(name) for target in panel["targets"]]


def with_targets(name):
    return [panel for panel in panels(board(name)) if panel["type"] != "text"]


named = every_case("name", BOARDS)


@named
def test_the_committed_dashboards_equal_the_generated_ones(name):
    committed = (WRITTEN / f"{name}.json").read_text(encoding="utf-8")
    assert committed == text(BOARDS[name]()), "run `make dashboards`"


def test_no_other_dashboard_is_committed():
    assert {path.stem for path in WRITTEN.iterdir()} == set(BOARDS)


@named
def test_a_dashboard_survives_a_round_trip_through_its_schemas_models(name):
    register_default_plugins()
    committed = board(name)
    again = json.loads(json.dumps(Dashboard.from_json(committed), cls=JSONEncoder))
    # The models put these back; the code says why it omits them.
    for shown in (*again["links"], *again["annotations"]["list"]):
        shown.pop("placement")
    for variable in again["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):
            variable.pop(key, None)
    for panel in again["panels"]:
        if panel["type"] == "table":
            panel["options"].pop("footer", None)
    assert again == committed


@named
def test_ids_are_set_and_unique(name):
    ids = [panel["id"] for panel in everything(name)]
    assert all(isinstance(one, int) and one > 0 for one in ids)
    assert len(set(ids)) == len(ids)
    assert board(name)["uid"] == UIDS[name]


@named
def test_panels_stay_within_the_grid_and_do_not_overlap(name):
    def cells(panel):
        place = panel["gridPos"]
        return {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }

    for panel in everything(name):
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= COLUMNS
        assert place["w"] > 0
        assert place["h"] > 0
    for one, other in combinations(everything(name), 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])


@named
def test_rows_of_panels_leave_no_gaps(name):
    taken = sorted((panel["gridPos"]["y"], panel["gridPos"]["h"]) for panel in everything(name))
    bottoms = [0]
    for y, height in taken:
        assert y <= max(bottoms), f"nothing stands above line {y}"
        bottoms.append(y + height)


@named
def test_every_panel_has_a_description(name):
    for panel in panels(board(name)):
        assert panel["type"] in KINDS
        assert panel["title"]
        words = panel["description"].split()
        assert len(words) >= 8, panel["title"]
        assert panel["description"].endswith("."), panel["title"]


@named
def test_titles_differ(name):
    titles = [panel["title"] for panel in everything(name)]
    assert len(set(titles)) == len(titles)


@named
def test_numbers_have_a_unit_and_colours_in_rising_order(name):
    for panel in with_targets(name):
        defaults = panel["fieldConfig"]["defaults"]
        if panel["type"] != "table":
            assert defaults["unit"], panel["title"]
        for steps in (
            defaults["thresholds"]["steps"],
            *(
                change["value"]["steps"]
                for override in panel["fieldConfig"]["overrides"]
                for change in override["properties"]
                if change["id"] == "thresholds"
            ),
        ):
            # The first holds from minus infinity on, which JSON writes as null.
            assert steps[0]["value"] is None
            values = [step["value"] for step in steps[1:]]
            assert all(low < high for low, high in pairwise(values)), panel["title"]


@named
def test_several_series_have_names_of_their_own(name):
    for panel in with_targets(name):
        for target in panel["targets"]:
            if target.get("format") == "table":
                continue
            grouped = re.search(r"\bby \(([^)]*)\)", target["expr"])
            alone = len(panel["targets"]) == 1 and panel["type"] == "stat"
            legend = target["legendFormat"]
            assert legend != "__auto" or alone, (panel["title"], target["expr"])
            for label in re.findall(r"{{(\w+)}}", legend):
                assert grouped is None or label in target["expr"], (panel["title"], label)


@named
def test_references_within_a_panel_differ_and_go_to_the_chosen_source(name):
    for panel in with_targets(name):
        references = [target["refId"] for target in panel["targets"]]
        assert references == sorted(set(references))
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert target.get("datasource") in (None, panel["datasource"])


@named
def test_every_variable_that_is_used_is_defined(name):
    whole = json.dumps(board(name))
    defined = {variable["name"] for variable in board(name)["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-zA-Z_][\w.]*)(?::\w+)?\}?", whole))
    assert used - defined <= {*BUILT_IN, "__all"}, used - defined
    assert defined <= used


def metrics_pages():
    pages = sorted((ROOT / "docs" / "reference" / "metrics").glob("*.md"))
    return "".join(path.read_text(encoding="utf-8") for path in pages)


def known_metrics():
    page = metrics_pages()
    documented = set(re.findall(r"^\| `(privacy_\w+)`", page, re.MULTILINE))
    assert len(documented) > 20
    recorded = set()
    for path in (ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            recorded |= {rule["record"] for rule in group["rules"] if "record" in rule}
    return documented | recorded | FOREIGN


def metrics_of(expr):
    bare = re.sub(r'"[^"]*"', '""', expr)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    bare = re.sub(r"\b(by|on|without)\s*\([^)]*\)", "", bare)
    names = re.findall(r"[a-zA-Z_:][\w:]*(?!\w*\s*\()", bare)
    return {word for word in names if "_" in word or word in FOREIGN} - {
        "clamp_max",
        "clamp_min",
        "histogram_quantile",
        "sort_desc",
        "__rate_interval",
        "__range",
    }


@named
def test_every_metric_in_a_query_is_documented_or_recorded(name):
    known = known_metrics()
    bases = set()
    for title, target in queries(name):
        for metric in metrics_of(target["expr"]):
            base = metric
            for suffix in SUFFIXES:
                if metric.removesuffix(suffix) in known:
                    base = metric.removesuffix(suffix)
            assert base in known, f"{title}: {metric}"
            bases.add(base)
    assert len(bases) > 5


def test_every_metric_of_budgets_and_partitions_is_on_some_dashboard():
    shown = set()
    for name in BOARDS:
        for _, target in queries(name):
            shown |= metrics_of(target["expr"])
    shown = {metric.removesuffix("_bucket") for metric in shown}
    page = metrics_pages()
    documented = set(re.findall(r"^\| `(privacy_\w+)`", page, re.MULTILINE))
    # Absent on purpose: the spent delta follows from the remaining one. Callers beyond the rate
    # limit and rejected callers get a response. An administrator's record, a late checkpoint or
    # sink, a replaced ledger, another signing key, the usage index, a curator that has ended, a
    # dataset on another one's source and what a probe says have an alert each. The bits of a hash
    # are for comparisons with a log. Notes of /readyz name a partition that cannot be shown.
    unshown = {"privacy_filter_delta_spent", "privacy_usage_index_behind"}
    unshown |= {"privacy_usage_index_trouble", "privacy_http_limited_requests_total"}
    unshown |= {"privacy_http_limited_by_name_total", "privacy_partition_readable"}
    unshown |= {"privacy_http_authentications_total", "privacy_http_not_permitted_total"}
    unshown |= {"privacy_administrator_records_total"}
    unshown |= {"privacy_checkpoint_place_overdue_seconds", "privacy_partition_head"}
    unshown |= {"privacy_checkpoint_key_differs", "privacy_ledgers_replaced"}
    unshown |= {"privacy_checkpoint_overdue_seconds"}
    unshown |= {"privacy_answers_not_stored_seconds"}
    unshown |= {"privacy_curator_running", "privacy_question_claims_differ_total"}
    unshown |= {"privacy_source_unexpected_datasets", "privacy_questions_ended_total"}
    unshown |= {"privacy_source_closed", "privacy_source_findings"}
    unshown |= {"privacy_probe_ready", "privacy_probe_authentication_away"}
    assert documented - shown <= unshown, documented - shown


@named
def test_alerts_are_marked_and_runbooks_are_linked(name):
    (marks,) = board(name)["annotations"]["list"]
    assert 'ALERTS{alertstate="firing"' in marks["target"]["expr"]
    urls = [link["url"] for link in board(name)["links"]]
    assert "${runbooks}" in urls
    for other, uid in UIDS.items():
        assert (f"/d/{uid}" in urls) == (other != name)


def test_links_between_dashboards_lead_to_one_that_exists():
    for name in BOARDS:
        for uid in re.findall(r"/d/([\w-]+)", json.dumps(board(name))):
            assert uid in UIDS.values()


def test_colours_change_where_alerts_fire():
    thresholds = yaml.safe_load(
        (ROOT / "deploy" / "prometheus" / "thresholds.yml").read_text(encoding="utf-8")
    )["thresholds"]
    shown = {panel["title"]: panel for panel in panels(board("overview"))}
    spent = shown["Spent and reserved, over time"]
    steps = [step["value"] for step in spent["fieldConfig"]["defaults"]["thresholds"]["steps"]]
    names = ("budget_half", "budget_low", "budget_nearly_exhausted")
    assert steps[1:] == [thresholds[name]["value"] for name in names]
