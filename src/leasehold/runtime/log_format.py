"""Sets up the logs of a program: as plain text, or by structlog as JSON or as text with all fields."""

import logging
import sys
from contextlib import suppress
from typing import Any

import orjson

from leasehold.config import LogFormat, process_redactor
from leasehold.runtime.attempt_logs import AttemptFormatter
from leasehold.runtime.outage import health_log
from leasehold.runtime.redacted_logs import redact_event
from leasehold.telemetry import Observer, ignore_events
from leasehold.telemetry.logs import EventLogs, JsonLines, add_attempt, require_structlog

PLAIN = "%(asctime)s %(levelname)s %(message)s"


def begin_logs(chosen: LogFormat | None) -> Observer:
    """Sets up the root logger on stderr. Returns the listener that logs events.

    Without a format, logs are plain text: problems and failures, but no line for each job.
    """
    if chosen is None:
        logging.basicConfig(level=logging.INFO, format=PLAIN)
        for handler in logging.getLogger().handlers:
            if handler.formatter is not None and handler.formatter._fmt == PLAIN:
                handler.setFormatter(AttemptFormatter(PLAIN))
        return ignore_events
    structlog = require_structlog()
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(structlog, chosen))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            *_shared(structlog),
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redact_event,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    # The listener logs the same.
    logging.getLogger("leasehold.worker.events").disabled = health_log.disabled = True
    logger = structlog.get_logger("leasehold")
    if chosen is LogFormat.TEXT:
        return EventLogs(logger)
    return JsonLines(logger, sys.stderr.buffer, process_redactor().text)


def _shared(structlog: Any) -> list[Any]:
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    return [add_attempt, structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, stamp]


def _formatter(structlog: Any, chosen: LogFormat) -> logging.Formatter:
    """Returns the formatter of all records: those of structlog, and those of any other logger."""
    if chosen is LogFormat.JSON:
        render = structlog.processors.JSONRenderer(serializer=_as_json)
    else:
        render = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)
    formatter: logging.Formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.ExtraAdder(),
            *_shared(structlog),
            _take_traceback,
            structlog.processors.format_exc_info,
            redact_event,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
    )
    return formatter


def _take_traceback(_logger: object, _method: str, event_dict: Any) -> Any:
    """Takes the traceback of a record that was redacted: its text is left, but not the exception itself."""
    record = event_dict["_record"]
    if record.exc_text and not record.exc_info:
        event_dict["exception"] = record.exc_text
    return event_dict


def _as_json(event_dict: Any, **_options: Any) -> str:
    """Renders a line. Values that are not JSON, such as objects and lone surrogates, become text."""
    with suppress(TypeError):
        return orjson.dumps(event_dict, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()
    import json

    return json.dumps(event_dict, default=str)
