"""Redacts records of the logging module: messages, arguments, extra fields, tracebacks and stacks."""

import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from leasehold.config import process_redactor
from leasehold.model.redaction import Redactor

LOGGERS = (
    *("leasehold", "leasehold.worker", "leasehold.worker.events", "leasehold.worker.health"),
    *("leasehold.scheduler", "leasehold.operations", "leasehold.api", "leasehold.console"),
)
DEEPEST = 10
_of_this_job: ContextVar[Redactor | None] = ContextVar("leasehold_redactor", default=None)
_formatter = logging.Formatter()
_OWN_FIELDS = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}

Factory = Callable[..., logging.LogRecord]


class RedactionFilter(logging.Filter):
    """Knows the secrets of the environment, and those of the job in whose task or thread a record is made."""

    def filter(self, record: logging.LogRecord) -> bool:
        redact_record(record, redactor_here())
        return True


class RedactingFactory:
    """Makes records that are redacted already, whatever handlers get them. It does not see extra fields."""

    def __init__(self, make: Factory) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        redact_record(record, redactor_here())
        return record


_filter = RedactionFilter()


def redactor_here() -> Redactor:
    """Returns the redactor of the job in whose task or thread this is called; elsewhere, that of the process."""
    return _of_this_job.get() or process_redactor()


def redact_own_logs() -> None:
    """Redacts the records of Leasehold's loggers, whatever handlers the program has."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_filter)


def redact_all_logs() -> None:
    """Redacts the records of all loggers, also for handlers that are set up later.

    Extra fields are redacted for handlers that are set up now, so this is called again once the app is imported.
    """
    make = logging.getLogRecordFactory()
    if not isinstance(make, RedactingFactory):
        logging.setLogRecordFactory(RedactingFactory(make))
    for handler in all_handlers():
        handler.addFilter(_filter)


def redact_logs_of_job(redactor: Redactor) -> None:
    """Redacts by a job's own redactor what is logged in this context: its task, and threads that it starts."""
    _of_this_job.set(redactor)


def redact_event(_logger: object, _method: str, event_dict: Any) -> Any:
    """Redacts all values of a line: a processor of structlog."""
    redactor = redactor_here()
    for name, value in event_dict.items():
        if not name.startswith("_"):
            event_dict[name] = _redacted(value, redactor)
    return event_dict


def redact_record(record: logging.LogRecord, redactor: Redactor) -> None:
    """Changes a record so that no formatter can write a secret."""
    _redact_message(record, redactor)
    if record.exc_info:
        text = record.exc_text or _formatter.formatException(record.exc_info)
        if (redacted := redactor.text(text)) is not text:
            # Without the exception itself: other formatters would write its text again.
            record.exc_text, record.exc_info = redacted, None
    elif record.exc_text:
        record.exc_text = redactor.text(record.exc_text)
    if record.stack_info:
        record.stack_info = redactor.text(record.stack_info)
    fields = vars(record)
    for name in fields.keys() - _OWN_FIELDS:
        fields[name] = _redacted(fields[name], redactor)


def _redact_message(record: logging.LogRecord, redactor: Redactor) -> None:
    try:
        message = record.getMessage()
    except Exception:  # wrong arguments: the handler reports that, and prints them
        record.msg, record.args = _redacted(record.msg, redactor), _redacted(record.args, redactor)
        return
    if (redacted := redactor.text(message)) is not message:
        record.msg, record.args = redacted, ()
    elif record.args:  # a mapping may have more than its message shows
        record.args = _redacted(record.args, redactor)


def _redacted(value: Any, redactor: Redactor, depth: int = 0) -> Any:
    """Returns the value; if its text has a secret, something similar without."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) is str:
        return redactor.text(value)
    if depth < DEEPEST:
        if type(value) is dict:
            return {
                _redacted(name, redactor, depth + 1): _redacted(each, redactor, depth + 1)
                for name, each in value.items()
            }
        if type(value) in (list, tuple, set):
            return type(value)(_redacted(each, redactor, depth + 1) for each in value)
    try:
        texts = str(value), repr(value)
    except Exception:  # of its own code: formatters meet it, too
        return value
    redacted = redactor.text(texts[0])
    return value if (redacted, redactor.text(texts[1])) == texts else redacted


def all_handlers() -> Iterator[logging.Handler]:
    """Yields the handlers of all loggers, as they are set up now."""
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    for logger in loggers:
        if isinstance(logger, logging.Logger):
            yield from logger.handlers
    if logging.lastResort is not None:
        yield logging.lastResort
