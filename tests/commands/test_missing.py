"""Which means of ending commands a machine lacks, as `leasehold doctor` says it."""

import sys

import pytest

from leasehold.commands.missing import missing_here, missing_on


@pytest.mark.skipif(sys.platform != "linux", reason="others lack something")
def test_linux_lacks_nothing() -> None:
    assert missing_here() == ()


def test_other_systems_have_process_groups_only() -> None:
    first, *_ = missing_on("darwin", has_pidfd=False, has_proc=False)
    assert "process group" in first


@pytest.mark.parametrize(("has_pidfd", "has_proc", "named"), [(True, False, "/proc"), (False, True, "pidfd_open")])
def test_a_linux_without_one_of_the_means_is_named(has_pidfd: bool, has_proc: bool, named: str) -> None:
    (lacks,) = missing_on("linux", has_pidfd, has_proc)
    assert named in lacks
