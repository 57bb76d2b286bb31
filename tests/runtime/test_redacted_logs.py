"""Records of the logging module are redacted, with their tracebacks."""

import contextvars
import io
import logging
import logging.config
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import leasehold
from leasehold.config import process_redactor
from leasehold.runtime.redacted_logs import (
    LOGGERS,
    RedactionFilter,
    redact_all_logs,
    redact_logs_of_job,
    redact_own_logs,
)
from leasehold.runtime.redacted_prints import redact_prints

SECRET = "t0k3n-of-the-environment"


class Shown:
    """An object that shows a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"shown as {self._text}"


@pytest.fixture
def of_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ACME_TOKEN", SECRET)
    process_redactor.cache_clear()
    yield
    process_redactor.cache_clear()


@pytest.fixture
def logger(of_environment: None, caplog: pytest.LogCaptureFixture) -> Iterator[logging.Logger]:
    added = RedactionFilter()
    caplog.handler.addFilter(added)
    yield logging.getLogger("tests.shop")
    caplog.handler.removeFilter(added)


def test_messages_and_their_arguments_are_redacted(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    logger.warning("sent %s and %r", SECRET, {"x": SECRET})
    logger.warning("ordinary %d", 1)
    assert caplog.messages == ["sent [redacted] and {'x': '[redacted]'}", "ordinary 1"]


def test_tracebacks_are_redacted(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError(f"no {SECRET}")
    except ValueError:
        logger.exception("failed")
    assert "ValueError: no [redacted]" in caplog.text
    assert SECRET not in caplog.text


def test_a_traceback_without_secrets_stays_an_exception(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise ValueError("ordinary")
    except ValueError:
        logger.exception("failed")
    assert caplog.records[0].exc_info is not None


def test_the_secrets_of_a_job_are_redacted_in_its_own_context(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    def handler() -> None:
        redact_logs_of_job(process_redactor().with_values("of-this-job"))
        logger.warning("of-this-job")

    contextvars.copy_context().run(handler)
    logger.warning("of-this-job")
    assert caplog.messages == ["[redacted]", "of-this-job"]


def test_own_loggers_are_redacted_without_a_handler(of_environment: None, caplog: pytest.LogCaptureFixture) -> None:
    redact_own_logs()
    logging.getLogger("leasehold.worker").warning("can't reach %s", SECRET)
    assert caplog.messages == ["can't reach [redacted]"]


def test_every_logger_of_the_package_is_redacted() -> None:
    files = Path(leasehold.__file__).parent.rglob("*.py")
    used = {name for file in files for name in re.findall(r'getLogger\("(leasehold[\w.]*)"\)', file.read_text())}
    assert used == set(LOGGERS)


def test_wrong_arguments_are_redacted_in_the_report_of_them(
    of_environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler(io.StringIO())
    handler.addFilter(RedactionFilter())
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    logger.warning("sent", SECRET, Shown(SECRET), {"x": [SECRET]})
    told = capsys.readouterr().err
    assert "not all arguments converted" in told
    assert SECRET not in told
    assert "Arguments: ('[redacted]', 'shown as [redacted]', {'x': ['[redacted]']})" in told


def test_wrong_arguments_without_secrets_stay_as_they_are(of_environment: None) -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "%d", ("x",), None)
    assert RedactionFilter().filter(record)
    assert record.args == ("x",)


def test_arguments_that_the_message_does_not_show_are_redacted(of_environment: None) -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "%(user)s", ({"user": "ada", "key": SECRET},), None)
    RedactionFilter().filter(record)
    assert record.args == {"user": "ada", "key": "[redacted]"}


def test_extra_fields_are_redacted(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    exact = object()
    extra = {"token": SECRET, "nested": {"list": (SECRET, 7, None)}, "shown": Shown(SECRET), "exact": exact}
    logger.warning("sent", extra=extra)
    (record,) = (vars(each) for each in caplog.records)
    assert record["token"] == "[redacted]"
    assert record["nested"] == {"list": ("[redacted]", 7, None)}
    assert record["shown"] == "shown as [redacted]"
    assert record["exact"] is exact


def test_stacks_are_redacted(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    logger.warning("here", stack_info=True)  # the stack shows this line: t0k3n-of-the-environment
    assert "the stack shows this line: [redacted]" in caplog.text


# ---------------------------------------------------------------------------------------------- all logs of a process


@pytest.fixture
def all_logs(of_environment: None) -> Iterator[io.StringIO]:
    """All logs are redacted; then the app sets up handlers of its own."""
    before, root = logging.getLogRecordFactory(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    redact_all_logs()
    written = io.StringIO()
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"all": {"()": lambda: logging.Formatter("%(message)s %(token)s", defaults={"token": "-"})}},
        "handlers": {"own": {"class": "logging.StreamHandler", "stream": written, "formatter": "all"}},
        "root": {"handlers": ["own"], "level": "INFO"},
        "loggers": {"tests.apart": {"handlers": ["own"], "propagate": False}},
    }
    logging.config.dictConfig(config)
    yield written
    logging.setLogRecordFactory(before)
    root.handlers, root.level = handlers, level
    logging.getLogger("tests.apart").handlers.clear()


@pytest.mark.parametrize("name", ["tests.shop", "tests.apart"])
def test_logs_are_redacted_for_handlers_that_are_set_up_later(all_logs: io.StringIO, name: str) -> None:
    try:
        raise ValueError(f"no {SECRET}")
    except ValueError:
        logging.getLogger(name).exception("sent %s", SECRET)
    assert SECRET not in all_logs.getvalue()
    assert "sent [redacted]" in all_logs.getvalue()
    assert "ValueError: no [redacted]" in all_logs.getvalue()


@pytest.mark.parametrize("name", ["tests.shop", "tests.apart"])
def test_a_second_call_redacts_extra_fields_for_new_handlers(all_logs: io.StringIO, name: str) -> None:
    redact_all_logs()
    logging.getLogger(name).warning("sent", extra={"token": SECRET})
    assert all_logs.getvalue() == "sent [redacted]\n"


def test_a_second_call_makes_no_second_factory(all_logs: io.StringIO) -> None:
    made = logging.getLogRecordFactory()
    redact_all_logs()
    assert logging.getLogRecordFactory() is made


# ------------------------------------------------------------------------------------------------------------- prints


def test_prints_are_redacted(
    of_environment: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    redact_prints()
    redact_prints()
    print("sent", SECRET, flush=True)  # noqa: T201
    sys.stderr.writelines(["as ", SECRET])
    written = capsys.readouterr()
    assert (written.out, written.err) == ("sent [redacted]\n", "as [redacted]")
    assert not sys.stdout.isatty()
