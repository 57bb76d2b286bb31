"""The memory of a worker about its lanes: whose turn it is, and how far it got."""

from leasehold.engines.postgres.claim.positions import LOWEST, ClaimPositions, Lane, LaneRange
from leasehold.engines.postgres.claim.rotation import PIECE, SMALLEST_PIECE, ScanRange, TenantRotation


def tenant(name: str) -> Lane:
    return Lane("report", name, capped=False)


def looked(tour: TenantRotation, *names: str, took: float = 0) -> None:
    tour.note_look([tenant(name) for name in names], began=0, ended=took)


def turns(tour: TenantRotation, most: int) -> list[str]:
    return [lanes[0].tenant for lanes in tour.take(most)]


def test_tenants_come_one_after_the_other() -> None:
    tour = TenantRotation()
    looked(tour, "a", "b", "c")
    assert [turns(tour, 2), turns(tour, 2), turns(tour, 2)] == [["a", "b"], ["c"], []]


def test_a_tenant_with_more_jobs_gets_its_next_turn_last() -> None:
    tour = TenantRotation()
    looked(tour, "a", "b")
    tour.keep(tour.take(1))
    assert turns(tour, 1) == ["b"]
    assert turns(tour, 1) == ["a"]


def test_all_lanes_of_a_tenant_have_their_turn_together() -> None:
    tour = TenantRotation()
    tour.note_look([Lane("email", "a", False), Lane("report", "a", False)], began=0, ended=0)
    assert [[lane.definition for lane in lanes] for lanes in tour.take(1)] == [["email", "report"]]


def test_the_rotation_goes_all_the_way_round() -> None:
    tour = TenantRotation()
    assert tour.way == ScanRange()
    looked(tour, "a", "b", "c")
    turns(tour, 2)
    assert tour.way == ScanRange("b", until="b", around=False)


def test_the_next_claim_begins_behind_the_last_served_tenant() -> None:
    tour = TenantRotation()
    tour.note_turns("d")
    assert tour.way == ScanRange("d", until="d", around=False)


def went(tour: TenantRotation, *, last: str | None, full: bool, around: bool = False, idle: bool = True) -> None:
    tour.note_range(tour.way, last=last, full=full, around=around, idle=idle)


def test_after_tenants_without_work_the_next_ones_are_read() -> None:
    tour = TenantRotation()
    tour.note_turns("b")
    went(tour, last="d", full=True)
    assert (tour.whole, tour.way) == (False, ScanRange("d", until="b", around=False))
    went(tour, last="a", full=True, around=True)
    assert (tour.whole, tour.way) == (False, ScanRange("a", until="b", around=True))


def test_a_rotation_without_work_shows_that_there_is_none() -> None:
    tour = TenantRotation()
    tour.note_turns("b")
    went(tour, last="d", full=True)
    went(tour, last="b", full=False, around=True)
    assert (tour.whole, tour.way) == (True, ScanRange("b", until="b", around=False))


def test_a_piece_with_work_shows_nothing_of_what_lies_behind() -> None:
    tour = TenantRotation()
    went(tour, last="d", full=True, idle=False)
    assert (tour.whole, tour.way) == (False, ScanRange())


def test_no_more_tenants_are_looked_for_than_there_is_room_for() -> None:
    assert [TenantRotation().piece(1, limit) for limit in (1, 20, 200)] == [SMALLEST_PIECE, 20, PIECE]


def test_behind_tenants_without_work_a_whole_piece_is_looked_for() -> None:
    tour = TenantRotation()
    went(tour, last="d", full=True)
    assert tour.piece(1, limit=1) == PIECE


def test_with_many_definitions_fewer_tenants_make_a_piece() -> None:
    assert [TenantRotation().piece(definitions, 0) for definitions in (1, 2, 4, 1000)] == [
        128,
        64,
        32,
        SMALLEST_PIECE,
    ]


def test_looking_takes_no_more_than_a_twentieth_of_the_time() -> None:
    tour = TenantRotation()
    assert tour.may_look(0)
    looked(tour, "a", took=1)
    assert not tour.may_look(19.9)
    assert tour.may_look(20)


def some_claimed() -> ClaimPositions:
    """So many that dead entries may be what makes claims slow."""
    marks = ClaimPositions()
    marks.note_claims([("report", "a", 100, seq) for seq in range(ClaimPositions.MANY_CLAIMED)])
    return marks


def full(marks: ClaimPositions, times: int, seconds: float, now: float = 0) -> None:
    for _ in range(times):
        marks.note_full_claim(seconds, touched=10, now=now)


def marked(marks: ClaimPositions, seconds: float, times: int = ClaimPositions.TRIAL, now: float = 0) -> None:
    for _ in range(times):
        marks.note_positioned_claim(seconds, touched=10, now=now)


def test_claims_are_full_ones_as_long_as_those_are_not_slow() -> None:
    marks = some_claimed()
    full(marks, 100, seconds=1)
    full(marks, 100, seconds=1.4)
    assert marks.full_claim_is_due(0)


def test_a_lane_with_few_claims_is_never_read_from_a_position() -> None:
    marks = ClaimPositions()
    marks.note_claims([("report", "a", 100, 1)])
    full(marks, 5, seconds=1)
    full(marks, 100, seconds=10)
    assert marks.full_claim_is_due(0)


def test_one_claim_that_took_long_is_not_slowness() -> None:
    marks = some_claimed()
    for _ in range(20):
        full(marks, 4, seconds=1)
        full(marks, 1, seconds=100)
    assert marks.full_claim_is_due(0)


def test_slowness_that_comes_bit_by_bit_is_noticed_too() -> None:
    marks = some_claimed()
    for step in range(100):
        full(marks, 5, seconds=1 + step / 100)
    assert not marks.full_claim_is_due(0)


def test_claims_that_became_slow_are_compared_with_some_by_marks() -> None:
    marks = some_claimed()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=3)
    assert not marks.full_claim_is_due(1_000)
    marked(marks, seconds=3)
    assert marks.full_claim_is_due(0), "those by marks were as slow: it is the machine"


def test_after_a_trial_in_vain_there_is_none_for_a_while() -> None:
    marks = some_claimed()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=3)
    marked(marks, seconds=3)
    full(marks, 5, seconds=1)
    full(marks, ClaimPositions.FULL_BETWEEN_TRIALS - 6, seconds=3)
    assert marks.full_claim_is_due(0)
    full(marks, 1, seconds=3)
    assert not marks.full_claim_is_due(0)


def test_a_trial_ends_when_there_is_hardly_any_work() -> None:
    marks = some_claimed()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=3)
    marks.note_shortfall()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=3)
    assert marks.full_claim_is_due(0), "nor is there another for a while"


def test_slow_full_claims_become_rare_but_do_not_end() -> None:
    marks = some_claimed()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=2.5)
    marked(marks, seconds=1, now=100)
    assert not marks.full_claim_is_due(118)
    assert marks.full_claim_is_due(120)


def test_claims_are_full_again_once_those_are_fast() -> None:
    marks = some_claimed()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=2.5)
    marked(marks, seconds=1, now=100)
    full(marks, 2, seconds=1.2, now=120)
    assert marks.full_claim_is_due(120)
    full(marks, 5, seconds=1.2, now=120)
    assert marks.full_claim_is_due(120)


def test_one_full_claim_that_was_fast_may_be_chance() -> None:
    marks = some_claimed()
    full(marks, 5, seconds=1)
    full(marks, 5, seconds=2.5)
    marked(marks, seconds=1, now=100)
    full(marks, 1, seconds=1.2, now=120)
    full(marks, 1, seconds=2.5, now=120)
    assert not marks.full_claim_is_due(130)


def test_a_marked_claim_goes_on_behind_the_last_job_of_each_priority() -> None:
    marks, lane = ClaimPositions(), tenant("a")
    marks.note_claims([("report", "a", 1, 7), ("report", "a", 100, 3), ("report", "a", 100, 5)])
    assert marks.ranges([lane], full=False)[1:] == [LaneRange(lane, 1, 7, 99), LaneRange(lane, 100, 5)]
    assert marks.ranges([lane], full=True) == [LaneRange(lane)]


def test_a_claim_by_positions_sees_more_urgent_jobs() -> None:
    marks, lane = ClaimPositions(), tenant("a")
    marks.note_claims([("report", "a", 100, 3)])
    assert marks.ranges([lane], full=False)[0] == LaneRange(lane, to_priority=99)


def test_nothing_is_more_urgent_than_the_most_urgent() -> None:
    marks, lane = ClaimPositions(), tenant("a")
    marks.note_claims([("report", "a", LOWEST, 3)])
    assert marks.ranges([lane], full=False) == [LaneRange(lane, LOWEST, 3)]


def test_a_mark_goes_down_again_when_an_older_job_turns_up() -> None:
    marks, lane = ClaimPositions(), tenant("a")
    marks.note_claims([("report", "a", 100, 9)])
    marks.note_claims([("report", "a", 100, 4)])
    assert marks.ranges([lane], full=False)[-1] == LaneRange(lane, 100, 4)


def test_a_lane_without_a_mark_is_read_from_its_beginning() -> None:
    lane = tenant("new")
    assert ClaimPositions().ranges([lane], full=False) == [LaneRange(lane)]
