"""Canaries: secrets that are easy to find, the ways in which handlers leak them, and the search for them."""

import base64
import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from leasehold import Fail, Job, RetryLater

COUNT = 50
# Each form of a canary has one of these: in the text itself, in hexadecimal, in base64 at any place of longer data.
MARKS = re.compile("|".join([r"ry-\d\d", "72792d3", "NHJ5", "bjRy", "NG40"]))
shop_log = logging.getLogger("shop")


def canary(number: int) -> str:
    """A secret with characters that JSON, URLs, HTML and Python write in ways of their own."""
    return f'c4n4ry-{number:02} "ä/&\\?={number * 7919}'


def variable_of(number: int) -> str:
    """The environment variable that has this canary."""
    return f"CANARY_{number}_TOKEN"


def forms_of(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield repr(raw)[2:-1]
    yield raw.hex()
    yield base64.b64encode(raw).decode()
    yield quote(secret)
    yield quote(secret, safe="")


def parts_of(secret: str) -> Iterator[str]:
    """Parts as a cut would leave them, and those that base64 of longer data has, wherever the secret stands in it."""
    yield f"ry-{secret[7:9]}"
    for before in range(3):
        yield base64.b64encode(b"0" * before + secret.encode()).decode()[4:-4]


def leak_in_an_error(job: Job, secret: str) -> Any:
    raise ValueError(f"refused: {secret}")


def leak_in_a_chain_of_errors(job: Job, secret: str) -> Any:
    try:
        raise KeyError(secret)
    except KeyError as error:
        raise RuntimeError(f"after {error}") from error


def leak_in_a_context(job: Job, secret: str) -> Any:
    try:
        leak_in_an_error(job, secret)
    finally:
        dict[str, str]()[secret]


def leak_in_a_long_error(job: Job, secret: str) -> Any:
    raise ValueError("x" * 9_990 + secret + "y" * 9_990)


def leak_in_a_failure(job: Job, secret: str) -> Any:
    raise Fail(json.dumps({"password": secret}))


def leak_in_a_retry(job: Job, secret: str) -> Any:
    raise RetryLater("1h", f"{secret.encode()!r}")


def leak_in_notes(job: Job, secret: str) -> Any:
    error = ValueError("refused")
    error.add_note(f"by {secret}")
    raise error


def leak_in_lines(job: Job, secret: str) -> Any:
    for form in forms_of(secret):
        job.log(f"as {form}.")
    job.log(secret.encode())  # type: ignore[arg-type]
    job.log(json.dumps({"nested": [{"secret": secret}]}))
    job.log("z" * 9_990 + secret)


def leak_in_progress(job: Job, secret: str) -> Any:
    job.progress(0.5, f"half of {secret}")


def leak_in_a_result(job: Job, secret: str) -> Any:
    return f"it is {secret}"


def leak_in_a_document(job: Job, secret: str) -> Any:
    return {"nested": [secret, {secret: 1}], "form": base64.b64encode(f"user:{secret}".encode()).decode()}


def leak_in_a_bad_result(job: Job, secret: str) -> Any:
    return {"unstorable": object(), secret: secret}


def leak_in_a_bad_key(job: Job, secret: str) -> Any:
    return {secret: float("nan")}


def leak_in_logs(job: Job, secret: str) -> Any:
    shop_log.warning("sent %s", secret)
    logging.getLogger("leasehold.worker").warning("sent %r", {"key": secret})
    try:
        raise ValueError(secret)
    except ValueError:
        shop_log.exception("failed")


def leak_in_extra_fields(job: Job, secret: str) -> Any:
    shop_log.warning("sent", extra={"token": secret, "nested": {"list": [secret]}}, stack_info=True)


def leak_in_wrong_arguments(job: Job, secret: str) -> Any:
    shop_log.warning("sent", secret, {"key": secret})


def leak_in_prints(job: Job, secret: str) -> Any:
    print("printed", secret)  # noqa: T201
    print(json.dumps({"key": secret}), file=sys.stderr)  # noqa: T201
    try:
        raise ValueError(secret)
    except ValueError:
        traceback.print_exc()


def leak_in_wrapped_base64(job: Job, secret: str) -> Any:
    text = base64.encodebytes(b"x" * 50 + secret.encode() + b"y" * 50).decode()
    job.log(text)
    shop_log.warning(text)
    print(text)  # noqa: T201
    return text


def leak_nothing(job: Job, secret: str) -> Any:
    return len(secret)


CHANNELS: list[Callable[[Job, str], Any]] = [
    value for name, value in list(globals().items()) if name.startswith("leak_")
]


def found(text: str, secrets: list[str]) -> list[str]:
    """Returns the forms of secrets in the text, also if JSON or a row has written its quotes in another way.

    Searches without line breaks, too: a form may be wrapped.
    """
    bare = text.replace('""', '"').replace("\\\\", "\\").replace('\\"', '"')
    joined = text.replace("\n", "").replace("\\n", "")
    if not MARKS.search(text) and not MARKS.search(joined):
        return []
    forms = [form for secret in secrets for form in (*forms_of(secret), *parts_of(secret))]
    return [form for form in forms if form in text or form in bare or form in joined]
