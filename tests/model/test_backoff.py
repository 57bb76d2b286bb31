"""Backoffs: the delays of the presets, jitter, bounds, and the stored form."""

import json
from datetime import timedelta
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leasehold
from leasehold.errors import InvalidInput
from leasehold.model.backoff import (
    COMMAND,
    DEFAULT,
    OUTBOX,
    SCHEDULED,
    SMALL_TEAM,
    Backoff,
    Exponential,
    Preset,
    Steps,
    backoff_from_json,
)
from leasehold.model.bounds import LONGEST
from leasehold.model.definition import Definition

LUCK = st.floats(0, 1, exclude_max=True)
DELAYS = st.floats(0, LONGEST.total_seconds())


@st.composite
def exponentials(draw: st.DrawFn) -> Exponential:
    cap = draw(DELAYS)
    factor = draw(st.floats(1, 1e300))
    return Exponential(draw(st.floats(0, cap)), factor, cap, jitter=draw(st.floats(0, 1)))


BACKOFFS: st.SearchStrategy[Backoff] = exponentials() | st.lists(DELAYS, min_size=1).map(
    lambda delays: Steps(*delays)
)


def seconds_after(backoff: Backoff, executions: int, jitter: float = 0) -> list[float]:
    return [backoff.delay(execution, jitter).total_seconds() for execution in range(1, executions + 1)]


@pytest.mark.parametrize(
    ("preset", "executions", "delays"),
    [
        pytest.param(OUTBOX, 3, [30, 300], id="seed 000"),
        pytest.param(SCHEDULED, 5, [60, 120, 240, 480], id="seed 003"),
        pytest.param(SMALL_TEAM, 5, [1, 2, 4, 8], id="seed 004"),
    ],
)
@pytest.mark.parametrize("jitter", [0, 0.5, 0.999])
def test_a_preset_waits_exactly_as_its_seed_did(
    preset: Preset, executions: int, delays: list[float], jitter: float
) -> None:
    assert preset.max_attempts == executions
    assert seconds_after(preset.backoff, executions - 1, jitter) == delays


def test_seed_004_is_capped_at_a_minute() -> None:
    assert seconds_after(SMALL_TEAM.backoff, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_default_doubles_from_five_seconds_up_to_an_hour() -> None:
    assert seconds_after(DEFAULT.backoff, 12) == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]


def test_the_default_has_full_jitter() -> None:
    assert DEFAULT.backoff == Exponential(base=5, factor=2, cap=3600, jitter=1)
    assert DEFAULT.backoff.delay(1, jitter=0.75) == timedelta(seconds=1.25)


def test_a_job_has_five_tries_by_default_and_a_command_three() -> None:
    assert (DEFAULT.max_attempts, COMMAND.max_attempts) == (5, 3)


def test_a_command_waits_as_any_job_does() -> None:
    assert COMMAND.backoff == DEFAULT.backoff


def test_a_definition_without_words_about_retries_gets_the_default() -> None:
    definition = Definition("send_mail")
    assert Preset(definition.backoff, definition.max_attempts) == DEFAULT


@pytest.mark.parametrize(("share", "jitter", "seconds"), [(0, 0.9, 100), (0.2, 0, 100), (0.2, 0.5, 90), (1, 0.9, 10)])
def test_jitter_is_the_share_that_chance_may_take_away(share: float, jitter: float, seconds: float) -> None:
    delay = Exponential(base=100, jitter=share).delay(1, jitter)
    assert delay.total_seconds() == pytest.approx(seconds)


@given(exponentials(), st.integers(1, 10**9), LUCK)
def test_a_delay_stays_between_its_jittered_share_and_the_cap(
    backoff: Exponential, execution: int, jitter: float
) -> None:
    rounding = timedelta(microseconds=1)
    longest = backoff.delay(execution, jitter=0)
    delay = backoff.delay(execution, jitter)

    assert delay <= longest <= timedelta(seconds=backoff.cap) + rounding
    assert delay >= longest * (1 - backoff.jitter) - rounding


@given(exponentials(), st.integers(1, 2000))
def test_without_chance_a_later_delay_is_never_shorter(backoff: Exponential, execution: int) -> None:
    assert backoff.delay(execution, jitter=0) <= backoff.delay(execution + 1, jitter=0)


@pytest.mark.parametrize("execution", [1025, 10**6, 2**31, 10**30])
@pytest.mark.parametrize("factor", [1.01, 2, 10**10, 1e300], ids=str)
def test_however_high_the_execution_number_the_delay_is_the_cap(factor: float, execution: int) -> None:
    execution = max(execution, 10**6) if factor < 2 else execution
    assert Exponential(base=1.5, factor=factor, cap=3600, jitter=0).delay(execution, 0) == timedelta(hours=1)


def test_a_base_of_zero_never_waits_however_high_the_execution_number() -> None:
    assert Exponential(base=0).delay(10**9, jitter=0) == timedelta()


def test_the_last_of_the_steps_repeats() -> None:
    assert seconds_after(Steps(1, 10, 60), 5) == [1, 10, 60, 60, 60]


@given(BACKOFFS)
def test_a_backoff_comes_back_from_its_stored_json(backoff: Backoff) -> None:
    assert backoff_from_json(json.loads(json.dumps(backoff.as_json()))) == backoff


@pytest.mark.parametrize("preset", [DEFAULT, COMMAND, OUTBOX, SCHEDULED, SMALL_TEAM])
def test_a_preset_comes_back_from_its_stored_json(preset: Preset) -> None:
    assert backoff_from_json(json.loads(json.dumps(preset.backoff.as_json()))) == preset.backoff


@pytest.mark.parametrize(
    "values",
    [
        {"base": -1},
        {"base": nan},
        {"base": 10, "cap": 9},
        {"factor": 0.5},
        {"factor": nan},
        {"factor": inf},
        {"cap": inf},
        {"cap": nan},
        {"cap": LONGEST.total_seconds() + 1},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": nan},
    ],
    ids=str,
)
def test_an_invalid_exponential_backoff_is_refused_with_its_values(values: dict[str, float]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Exponential(**values)

    for name, value in values.items():
        assert f"{name}={value}" in str(refusal.value)
    assert "0 <= base <= cap" in str(refusal.value)
    assert "Nothing was changed" in str(refusal.value)


@pytest.mark.parametrize("delays", [(), (-1,), (30, -1), (nan,), (30, nan), (inf,), (LONGEST.total_seconds() + 1,)])
def test_steps_that_make_no_sense_are_refused_with_their_values(delays: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Steps(*delays)

    assert f"Steps{delays}" in str(refusal.value)
    assert "at least one duration" in str(refusal.value)
    assert "Nothing was changed" in str(refusal.value)


@pytest.mark.parametrize(
    ("preset", "waits", "executions"),
    [
        (leasehold.OUTBOX, [30, 300], 3),
        (leasehold.SCHEDULED, [60, 120, 240, 480], 5),
        (leasehold.SMALL_TEAM, [1, 2, 4, 8], 5),
    ],
)
def test_a_public_preset_sets_backoff_and_executions(
    preset: leasehold.Preset, waits: list[int], executions: int
) -> None:
    @leasehold.Leasehold("postgresql://nowhere").job(backoff=preset)
    def chore(job: leasehold.Job) -> None: ...

    definition = chore.definition
    assert definition.max_attempts == executions
    assert [definition.backoff.delay(run, 0.9).total_seconds() for run in range(1, executions)] == waits


def test_max_attempts_beside_a_preset_wins() -> None:
    @leasehold.Leasehold("postgresql://nowhere").job(backoff=leasehold.OUTBOX, max_attempts=9)
    def chore(job: leasehold.Job) -> None: ...

    assert chore.definition.max_attempts == 9
