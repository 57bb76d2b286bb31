"""The dashboard and the alerts ask for metrics and labels that exist, and each alert has a section in the runbook."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.metric_names import labels_of_series
from tests.deploy.promql import named_in

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/leasehold.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
EXPRESSIONS = {
    **{f"{panel['title']} {each['refId']}": each["expr"] for panel in PANELS for each in panel["targets"]},
    **{rule["alert"]: rule["expr"] for rule in RULES},
}
SERIES = labels_of_series()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_asks_for_what_exists(name: str) -> None:
    found = named_in(EXPRESSIONS[name])
    assert found.selected
    assert [metric for metric, _ in found.selected if metric not in SERIES] == []
    for metric, labels in found.selected:
        assert labels <= SERIES[metric], metric
    known = frozenset[str]().union(*(SERIES[metric] for metric, _ in found.selected))
    assert found.grouped <= known


def test_a_wrong_name_and_a_wrong_label_are_found() -> None:
    found = named_in('sum by (le, kind) (rate(jobs_done_total{state="a{b}",type=~"x"}[5m])) / max(other) > 0.5')
    assert found.selected == [("jobs_done_total", {"state", "type"}), ("other", frozenset())]
    assert found.grouped == {"le", "kind"}


def test_variables_of_the_dashboard_ask_for_labels_that_exist() -> None:
    asked = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    for metric, label in (re.findall(r"label_values\((\w+), (\w+)\)", query)[0] for query in asked):
        assert label in SERIES[metric]
    assert len(asked) == 2


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken = set[tuple[int, int]]()
    for place in (panel["gridPos"] for panel in DASHBOARD["panels"]):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_runbook_of_an_alert_leads_to_its_section(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert anchor == rule["alert"].lower()
    assert anchor in anchors
    assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_the_runbook_has_a_section_for_no_other_alert() -> None:
    page = (ROOT / "docs/how-to/production.md").read_text()
    assert re.findall(r"^### (Leasehold\w+)$", page, re.MULTILINE) == [rule["alert"] for rule in RULES]


def test_each_alert_has_figures_that_make_it_fire() -> None:
    cases = yaml.safe_load((PROMETHEUS / "alerts_test.yaml").read_text())["tests"]
    firing = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test["exp_alerts"]}
    assert firing == {rule["alert"] for rule in RULES}
