"""Where engines honestly differ."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities that not every engine has. The conformance suite tests those that are True.

    caller_transaction  jobs are enqueued and finished within a caller's transaction
    exact_caps          a limit of running jobs is never exceeded, not even for a moment
    priorities          jobs of a tenant run by priority
    wakes               a sleeping worker is woken; otherwise workers poll
    fenced_logs         log lines of a lost claim are refused
    schedules           triggers fire by the clock; otherwise the app's own cron has to enqueue
    """

    caller_transaction: bool
    exact_caps: bool
    priorities: bool
    wakes: bool
    fenced_logs: bool
    schedules: bool
