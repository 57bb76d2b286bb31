"""Environment variables of commands that a payload fills."""

from typing import Any

import pytest
from tests.model.commands import JOB, TEXT, make

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model.argv import render
from leasehold.model.command import Command, Invocation
from leasehold.model.command_rules import require_usable

SECRET = {"type": "string", "x-secret": True}


def with_env(env: dict[str, str], schema: dict[str, Any] = SECRET, **more: Any) -> Command:
    return make(fields={"api_key": schema}, env=env, **more)


def invoke(command: Command, **payload: Any) -> Invocation:
    return render(command, payload, tenant="acme", job_id=JOB, attempt=1)


def refusal_of(command: Command) -> str:
    with pytest.raises(InvalidInput) as refused:
        require_usable(command)
    return refused.value.happened


def test_a_secret_is_passed_by_the_environment_and_not_by_argv() -> None:
    require_usable(command := with_env({"API_KEY": "{api_key}", "MODE": "fast"}, payload_file="JOB_PAYLOAD"))
    made = invoke(command, api_key="hunter2")
    assert made.env == {"API_KEY": "hunter2", "MODE": "fast"}
    assert made.argv == ("sync",)
    assert made.payload_file == b"{}"


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, 7, "7"),
        ({"type": "boolean"}, True, "true"),
        (TEXT, "$(id); a\nb", "$(id); a\nb"),
        (TEXT, "", ""),
    ],
)
def test_a_field_of_any_single_value_may_be_a_variable(schema: dict[str, Any], value: Any, text: str) -> None:
    require_usable(command := with_env({"VALUE": "{api_key}"}, schema))
    assert invoke(command, api_key=value).env == {"VALUE": text}


@pytest.mark.parametrize("payload", [{}, {"api_key": None}])
def test_a_variable_without_a_value_is_left_out(payload: dict[str, Any]) -> None:
    require_usable(command := with_env({"API_KEY": "{api_key}"}, {"type": ["string", "null"]}, required=False))
    assert invoke(command, **payload).env == {}


@pytest.mark.parametrize("value", ['{"a": {"b": 1}}', "{{ x }}", "{}", "a {b} c", "{1}"])
def test_other_values_with_braces_stay_as_they_are(value: str) -> None:
    require_usable(command := make(env={"CONFIG": value}))
    assert invoke(command).env == {"CONFIG": value}


def test_a_name_in_two_braces_is_a_text() -> None:
    require_usable(command := make(env={"CONFIG": "{{name}}"}))
    assert invoke(command).env == {"CONFIG": "{name}"}


@pytest.mark.parametrize("value", ["hunter2\0", "hunter2" * 20_000])
def test_a_value_that_no_variable_can_have_is_refused_unseen(value: str) -> None:
    with pytest.raises(PayloadInvalid, match="api_key can't be the environment variable API_KEY") as refused:
        invoke(with_env({"API_KEY": "{api_key}"}), api_key=value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"API_KEY": "{apikey}"}, "env.API_KEY names 'apikey', which is not a field of the schema (did you mean"),
        ({"API_KEY": "{tenant}"}, "env.API_KEY names 'tenant', which is not a field"),
        ({"API_KEY": "Bearer {api_key}"}, "env.API_KEY has {api_key} among other text"),
    ],
)
def test_a_slot_that_can_not_be_filled_is_refused(env: dict[str, str], why: str) -> None:
    assert why in refusal_of(with_env(env))


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "array", "items": TEXT}])
def test_a_variable_takes_a_single_value(schema: dict[str, Any]) -> None:
    assert "api_key is not a single value" in refusal_of(with_env({"API_KEY": "{api_key}"}, schema))


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS", "GIT_SSH_COMMAND", "PAGER", "PATH", "IFS", "HOME"],
)
def test_a_variable_that_could_run_code_has_no_slot(name: str) -> None:
    assert f"env.{name} can run code or load files" in refusal_of(with_env({name: "{api_key}"}))


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "NPM_TOKEN", "LDAP_PASSWORD", "REGION", "DATA_PATH", "PGPASSWORD"])
def test_an_ordinary_variable_may_have_a_slot(name: str) -> None:
    require_usable(with_env({name: "{api_key}"}))
