"""Where engines honestly differ."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities that not every engine has. The conformance suite tests those that are True.

    caller_transaction  jobs are enqueued and finished within a caller's transaction
    exact_caps          a limit of running jobs is never exceeded, not even for a moment
    priorities          jobs of a tenant run by priority
    exact_fairness      tenants take turns in every claim, however large the backlog of one of them is
    atomic_bulk         any number of jobs is enqueued all or none
    wakes               a sleeping worker is woken; otherwise workers poll
    adaptive_polling    without wakes, the engine looks for work in a sleeping worker's place, ever less often
    fenced_logs         log lines of a lost claim are refused
    schedules           triggers fire by the clock; otherwise the app's own cron has to enqueue
    atomic_audit        a change and its entry in the audit log are one transaction; otherwise the entry comes after
    series              figures of each minute and hour are kept, for charts
    upkeep              workers reclaim the jobs of dead ones, and prune; otherwise a server does it for them
    """

    caller_transaction: bool
    exact_caps: bool
    priorities: bool
    exact_fairness: bool
    atomic_bulk: bool
    wakes: bool
    adaptive_polling: bool
    fenced_logs: bool
    schedules: bool
    atomic_audit: bool
    series: bool
    upkeep: bool
