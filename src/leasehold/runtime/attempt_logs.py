"""Makes the log lines of handlers carry the facts of their attempt, in the logging module and in structlog."""

import logging
import sys

from leasehold.runtime.redacted_logs import all_handlers
from leasehold.telemetry.attempt_context import attempt_fields
from leasehold.telemetry.logs import add_attempt


class AttemptFilter(logging.Filter):
    """Adds the fields job_id, tenant_id, definition_key, attempt_no and worker_id to records of handlers.

    A filter of handlers, not a factory of records: logging refuses an `extra` field that a record has already, and
    `extra={"job_id": …}` is what many handlers write. Their own field wins.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in attempt_fields().items():
            record.__dict__.setdefault(name, value)
        return True


class AttemptFormatter(logging.Formatter):
    """Formats for people, and adds the facts of the attempt to the lines of handlers."""

    def format(self, record: logging.LogRecord) -> str:
        text, facts = super().format(record), attempt_fields()
        return f"{text}  {' '.join(f'{name}={value}' for name, value in facts.items())}" if facts else text


_filter = AttemptFilter()


def carry_attempts() -> None:
    """Adds the attempt to records that pass the handlers of logging as they are set up now, and to structlog.

    structlog's processors are changed in place, since loggers that were used before keep their list.
    """
    for handler in all_handlers():
        handler.addFilter(_filter)
    structlog = sys.modules.get("structlog")
    if structlog is None:
        return
    processors = structlog.get_config()["processors"]
    if add_attempt in processors:
        return
    if isinstance(processors, list):
        processors.insert(0, add_attempt)
    else:
        structlog.configure(processors=[add_attempt, *processors])
