"""Shows triggers, their decisions and their next runs."""

from datetime import datetime

from rich.text import Text

from leasehold.cli.format import at, relative, short, utc_now
from leasehold.cli.output import print_json, stderr, stdout
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.model.decision import Decision, DecisionKind
from leasehold.model.preview import Preview, Run
from leasehold.model.trigger import Origin, Trigger
from leasehold.operations import views
from leasehold.operations.triggers import described_owner, in_words
from leasehold.operations.views import printable

_STYLES = {
    DecisionKind.FIRED: "green",
    DecisionKind.DEDUPED: "dim",
    DecisionKind.SKIPPED: "yellow",
    DecisionKind.MISSED: "yellow",
    DecisionKind.ERROR: "red",
}


def confirm(trigger: Trigger, json: bool, state: str) -> None:
    if json:
        print_json(views.trigger(trigger))
        return
    owner = described_owner(trigger.tenant)
    after = "" if trigger.next_at is None else f", next at {at(trigger.next_at)}"
    stderr.print(printable(f"✓ trigger {trigger.rule.label} of {owner} {state}{after}"), markup=False)
    show_line(stdout, trigger.id)


def trigger_row(trigger: Trigger) -> list[Cell]:
    rule, now = trigger.rule, utc_now()
    when = in_words(rule.schedule) if rule.schedule is not None else f"on {rule.event}"
    if trigger.unreadable:
        when = f"can't be read: {'; '.join(trigger.unreadable.values())}"
    return [
        short(trigger.id),
        described_owner(trigger.tenant),
        rule.definition,
        _state(trigger, now),
        "–" if trigger.next_at is None else relative(trigger.next_at, now),
        "code" if trigger.origin is Origin.CODE else "data",
        rule.label,
        when,
    ]


def _state(trigger: Trigger, now: datetime) -> Text:
    if not trigger.rule.enabled:
        return Text("disabled", style="dim")
    if trigger.pause is not None and trigger.paused_at(now):
        return Text("paused", style="yellow")
    return Text("on", style="green")


def decision_style(kind: DecisionKind) -> str:
    return _STYLES[kind]


def decision_row(decision: Decision) -> list[Cell]:
    cause = decision.event if decision.fire_at is None else at(decision.fire_at)
    return [
        "–" if decision.at is None else at(decision.at),
        decision.tenant or "all tenants",
        Text(decision.kind.value, style=decision_style(decision.kind)),
        cause or "–",
        "–" if decision.job is None else short(decision.job),
        views.decision_reason(decision) or "–",
    ]


def show_preview(words: str, shown: Preview) -> None:
    show_line(stdout, words)
    show_table(stdout, ["LOCAL", "UTC", "YOURS", "NOTE"], map(_run_row, shown.runs))
    if shown.change is not None and shown.around:
        show_line(stdout, f"Next clock change: {at(shown.change.at)}")
        show_table(stdout, ["LOCAL", "UTC", "YOURS", "NOTE"], map(_run_row, shown.around))
    if not shown.runs:
        stderr.print("It does not fire before the year 9999.")


def _run_row(run: Run) -> list[Cell]:
    notes = "; ".join(mark.note for mark in run.marks)
    return [
        f"{run.local:%a %Y-%m-%d %H:%M:%S %Z}",
        f"{run.at:%a %H:%M:%S}",
        f"{run.viewer:%a %H:%M:%S %Z}",
        notes or "–",
    ]
