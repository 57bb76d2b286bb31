"""An app whose jobs leak their secrets in every way: on the loop, in threads, in processes and by a command."""

import logging
import logging.config
import os
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tests.app.canaries import CHANNELS, variable_of

from leasehold import Job, Leasehold

app = Leasehold()


class EveryField(logging.Formatter):
    """Writes all that a record has, as formatters for machines do."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{super().format(record)} {vars(record)}"


if file := os.environ.get("CANARY_LOG"):
    logging.getLogger("shop").addHandler(logging.FileHandler(file))
    logging.getLogger("shop").warning("imported with %s", os.environ[variable_of(0)])
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"all": {"()": EveryField}},
        "handlers": {
            "file": {"class": "logging.FileHandler", "filename": file, "formatter": "all"},
            "console": {"class": "logging.StreamHandler", "formatter": "all"},
        },
        "root": {"handlers": ["file", "console"], "level": "INFO"},
        "loggers": {"shop": {"handlers": ["file"], "propagate": True}},
    }
    logging.config.dictConfig(config)


def leak(job: Job, channel: int, secret: SecretStr, unused: list[SecretStr]) -> Any:
    return CHANNELS[channel](job, secret.get_secret_value())


async def leak_on_the_loop(job: Job, channel: int, secret: SecretStr, unused: list[SecretStr]) -> Any:
    return CHANNELS[channel](job, secret.get_secret_value())


def leak_environment(job: Job, number: int) -> Any:
    return CHANNELS[number % len(CHANNELS)](job, os.environ[variable_of(number)])


in_a_thread = app.job(key="in_a_thread", max_attempts=1)(leak)
on_the_loop = app.job(key="on_the_loop", max_attempts=1)(leak_on_the_loop)
in_a_process = app.job(key="in_a_process", max_attempts=1, isolation="process")(leak)
of_the_environment = app.job(key="of_the_environment", max_attempts=1)(leak_environment)
of_the_environment_in_a_process = app.job(key="of_the_environment_in_a_process", max_attempts=1, isolation="process")(
    leak_environment
)
by_a_program = app.command(
    "by_a_program",
    argv=["sh", str(Path(__file__).parent / "leaky.sh"), "{channel}"],
    schema={
        "type": "object",
        "properties": {
            "channel": {"type": "integer", "minimum": 0},
            "secret": {"type": "string", "x-secret": True},
            "unused": {"type": "array", "items": {"type": "string", "x-secret": True}},
        },
        "required": ["channel", "secret", "unused"],
        "additionalProperties": False,
    },
    env={"SHOP_CANARY": "{secret}"},
    payload_file="JOB_PAYLOAD",
    max_attempts=1,
)
