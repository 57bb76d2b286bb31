"""What a worker remembers of its lanes: whose turn it is, and how far it got."""

from leasehold.engines.postgres.lanes import Lane, Marks, Stretch, Tour


def tenant(name: str) -> Lane:
    return Lane("report", name, capped=False)


def looked(tour: Tour, *names: str, last: str | None = None, took: float = 0) -> None:
    tour.looked([tenant(name) for name in names], after=tour.look_after, last=last, began=0, ended=took)


def turns(tour: Tour, most: int) -> list[str]:
    return [lanes[0].tenant for lanes in tour.take(most)]


def test_tenants_come_one_after_the_other() -> None:
    tour = Tour()
    looked(tour, "a", "b", "c")
    assert [turns(tour, 2), turns(tour, 2), turns(tour, 2)] == [["a", "b"], ["c"], []]


def test_a_tenant_that_may_have_more_gets_another_turn_after_the_others() -> None:
    tour = Tour()
    looked(tour, "a", "b")
    tour.keep(tour.take(1))
    assert turns(tour, 1) == ["b"]
    assert turns(tour, 1) == ["a"]


def test_all_lanes_of_a_tenant_have_their_turn_together() -> None:
    tour = Tour()
    tour.looked([Lane("email", "a", False), Lane("report", "a", False)], after="", last=None, began=0, ended=0)
    assert [[lane.definition for lane in lanes] for lanes in tour.take(1)] == [["email", "report"]]


def test_after_another_look_it_goes_on_behind_the_tenant_that_was_last() -> None:
    tour = Tour()
    looked(tour, "a", "b", "c")
    assert turns(tour, 1) == ["a"]
    looked(tour, "a", "b", "c")
    assert turns(tour, 3) == ["b", "c", "a"]


def test_a_piece_of_many_is_followed_by_the_piece_behind_it() -> None:
    tour = Tour()
    looked(tour, "a", "b", last="c")
    assert turns(tour, 2) == ["a", "b"]
    assert (tour.whole, tour.look_after) == (False, "c")


def test_a_look_in_the_middle_of_a_piece_goes_on_behind_the_tenant_that_was_last() -> None:
    tour = Tour()
    looked(tour, "a", "b", last="c")
    assert turns(tour, 1) == ["a"]
    assert tour.look_after == "a"


def test_after_the_last_piece_it_begins_again() -> None:
    tour = Tour()
    looked(tour, "a", last="a")
    turns(tour, 1)
    looked(tour, "b")
    turns(tour, 1)
    assert (tour.whole, tour.look_after) == (False, "")


def test_a_round_of_pieces_without_work_shows_that_there_is_none() -> None:
    tour = Tour()
    looked(tour, last="c")
    assert not tour.whole
    looked(tour)
    assert tour.whole


def test_pieces_without_work_behind_one_that_had_some_show_nothing_yet() -> None:
    tour = Tour()
    looked(tour, "a", last="c")
    turns(tour, 1)
    looked(tour)
    assert not tour.whole


def test_looking_takes_no_more_than_a_twentieth_of_the_time() -> None:
    tour = Tour()
    assert tour.may_look(0)
    looked(tour, "a", took=1)
    assert not tour.may_look(19.9)
    assert tour.may_look(20)


def slow(marks: Marks, times: int, seconds: float = 1.0) -> None:
    for now in range(times):
        marks.full_claim_took(seconds, touched=10, now=float(now))


def test_claims_are_full_ones_as_long_as_those_are_not_slow() -> None:
    marks = Marks()
    marks.claimed(("report", "a", 100, seq) for seq in range(Marks.MANY_CLAIMED))
    slow(marks, 10, seconds=0.001)
    assert marks.full_claim_is_due(10)


def test_a_lane_that_was_hardly_claimed_from_is_never_read_from_a_mark() -> None:
    marks = Marks()
    marks.claimed([("report", "a", 100, 1)])
    slow(marks, 1, seconds=0.001)
    slow(marks, 10)
    assert marks.full_claim_is_due(10)


def test_slow_full_claims_become_rare_but_do_not_end() -> None:
    marks = Marks()
    marks.claimed(("report", "a", 100, seq) for seq in range(Marks.MANY_CLAIMED))
    slow(marks, 1, seconds=0.001)
    slow(marks, 2)
    assert marks.full_claim_is_due(2)
    slow(marks, 1)
    assert not marks.full_claim_is_due(10)
    assert marks.full_claim_is_due(20)


def test_a_marked_claim_goes_on_behind_the_last_job_of_each_priority() -> None:
    marks, lane = Marks(), tenant("a")
    marks.claimed([("report", "a", 1, 7), ("report", "a", 100, 3), ("report", "a", 100, 5)])
    assert marks.stretches([lane], full=False) == [Stretch(lane, 1, 7, 1), Stretch(lane, 100, 5, 100)]
    assert marks.stretches([lane], full=True) == [Stretch(lane)]


def test_a_mark_goes_down_again_when_an_older_job_turns_up() -> None:
    marks, lane = Marks(), tenant("a")
    marks.claimed([("report", "a", 100, 9)])
    marks.claimed([("report", "a", 100, 4)])
    assert marks.stretches([lane], full=False) == [Stretch(lane, 100, 4, 100)]


def test_a_lane_without_a_mark_is_read_from_its_beginning() -> None:
    lane = tenant("new")
    assert Marks().stretches([lane], full=False) == [Stretch(lane)]
