"""Redacts records of the logging module: messages, tracebacks and stacks."""

import logging
from contextvars import ContextVar

from leasehold.config import process_redactor
from leasehold.model.redaction import Redactor

LOGGERS = ("leasehold", "leasehold.worker", "leasehold.worker.events", "leasehold.scheduler")
_of_this_job: ContextVar[Redactor | None] = ContextVar("leasehold_redactor", default=None)
_formatter = logging.Formatter()


class RedactionFilter(logging.Filter):
    """Knows the secrets of the environment, and those of the job in whose task or thread a record is made."""

    def filter(self, record: logging.LogRecord) -> bool:
        redactor = _of_this_job.get() or process_redactor()
        try:
            message = record.getMessage()
        except Exception:  # wrong arguments: the handler reports that
            return True
        if (redacted := redactor.text(message)) is not message:
            record.msg, record.args = redacted, ()
        if record.exc_info:
            text = record.exc_text or _formatter.formatException(record.exc_info)
            if (redacted := redactor.text(text)) is not text:
                # Without the exception itself: other formatters would write its text again.
                record.exc_text, record.exc_info = redacted, None
        if record.stack_info:
            record.stack_info = redactor.text(record.stack_info)
        return True


_filter = RedactionFilter()


def redact_own_logs() -> None:
    """Redacts the records of Leasehold's loggers, whatever handlers the program has."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_filter)


def redact_all_logs() -> None:
    """Redacts the records of all loggers that reach the handlers which are set up now."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_filter)


def redact_logs_of_job(redactor: Redactor) -> None:
    """Redacts by a job's own redactor what is logged in this context: its task, and threads that it starts."""
    _of_this_job.set(redactor)
