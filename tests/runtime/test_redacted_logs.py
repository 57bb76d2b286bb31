"""Records of the logging module are redacted, with their tracebacks."""

import contextvars
import logging
from collections.abc import Iterator

import pytest

from leasehold.config import process_redactor
from leasehold.runtime.redacted_logs import RedactionFilter, redact_logs_of_job, redact_own_logs

SECRET = "t0k3n-of-the-environment"


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


def test_a_record_with_wrong_arguments_is_left_to_its_handler(of_environment: None) -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "%d", ("x",), None)
    assert RedactionFilter().filter(record)
    assert record.args == ("x",)
