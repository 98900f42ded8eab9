"""What is processed, acknowledged and committed of the assigned partitions."""

import pytest

from haltline.streams.runtime.source_progress import SourceProgress

PLACE = ("actions", 3)


@pytest.fixture
def progress() -> SourceProgress:
    progress = SourceProgress()
    progress.assign((PLACE,))
    progress.begin({PLACE: 7}, committed={PLACE: 7})
    return progress


def test_nothing_is_read_before_it_begins_and_after_it_is_released(progress: SourceProgress) -> None:
    assert not SourceProgress().recovered()
    assert progress.recovered()
    progress.release()
    assert (progress.recovered(), progress.partitions, dict(progress.positions())) == (False, (), {})


def test_what_is_processed_is_committed_only_when_a_checkpoint_acknowledges_it(progress: SourceProgress) -> None:
    progress.acknowledge(PLACE, 7)  # which is committed already
    progress.processed(PLACE, 8, record_ms=1_000)
    progress.processed(PLACE, 9, record_ms=None)  # a batch without records
    assert progress.positions() == {PLACE: (9, 1_000)}
    assert (progress.next_offset(PLACE), progress.uncommitted()) == (9, {})
    progress.acknowledge(PLACE, 9)
    assert progress.uncommitted() == {PLACE: 9}
    assert progress.committed(PLACE) == 7
    progress.on_commit(progress.uncommitted())
    assert (progress.committed(PLACE), progress.uncommitted()) == (9, {})


def test_what_was_acknowledged_can_be_committed_until_another_assignment(progress: SourceProgress) -> None:
    progress.acknowledge(PLACE, 9)
    progress.release()
    assert progress.uncommitted() == {PLACE: 9}
    progress.assign((("actions", 4),))
    assert (progress.uncommitted(), progress.committed(PLACE)) == ({}, None)
