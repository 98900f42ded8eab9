from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.agent.transport.disk_spool import DiskSpool

Record = tuple[str, bytes, bytes]


def all_of(spool: DiskSpool, *, at_most: int = 10**6) -> list[Record]:
    actual: list[Record] = []

    def send(topic: str, key: bytes, value: bytes, arrived: Callable[[bool], None]) -> bool:
        if len(actual) >= at_most:
            return False
        actual.append((topic, key, value))
        arrived(True)
        return True

    spool.drain(send)
    return actual


def record(number: int) -> Record:
    return "haltline.actions", b"s1", b"%06d" % number


def spool_of(folder: Path, *numbers: int, closed: bool = False) -> DiskSpool:
    spool = DiskSpool(folder, max_bytes=10**6)
    for number in numbers:
        assert spool.append(*record(number))
    if closed:
        spool.close()
    return spool


@given(
    steps=st.lists(st.one_of(st.integers(1, 5).map(lambda n: ("put", n)), st.integers(0, 7).map(lambda n: ("take", n))))
)
def test_all_comes_out_in_order(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    spool = spool_of(tmp_path_factory.mktemp("spool"))
    put, actual = 0, []
    for what, count in steps:
        if what == "take":
            actual += all_of(spool, at_most=count)
        else:
            for _ in range(count):
                assert spool.append(*record(put))
                put += 1
    actual += all_of(spool)
    assert actual == [record(number) for number in range(put)]
    assert not spool
    assert spool.size_bytes == 0
    spool.close()


def test_it_is_bounded_and_has_room_again(tmp_path: Path) -> None:
    spool = DiskSpool(tmp_path, max_bytes=200)
    kept = [spool.append("t", b"k", b"v" * 50) for _ in range(5)]
    assert kept == [True, True, True, False, False]
    assert len(all_of(spool)) == 3
    assert spool.append("t", b"k", b"v")


def test_the_next_process_sends_what_was_left_and_not_what_another_one_still_writes(tmp_path: Path) -> None:
    alive = spool_of(tmp_path, 2)
    spool_of(tmp_path, 1, closed=True)
    assert all_of(spool_of(tmp_path)) == [record(1)]
    assert all_of(alive) == [record(2)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 10, 25, 30])
def test_a_half_written_record_is_left_out_and_so_is_a_file_that_is_no_spool(tmp_path: Path, cut: int) -> None:
    spool_of(tmp_path, 1, 2, closed=True)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    (tmp_path / "0-x.spool").write_bytes(b"\xff" * 1000)
    assert all_of(spool_of(tmp_path, 3)) == [record(1), record(3)]


def test_a_file_that_cannot_be_read_is_set_aside_and_counted_and_takes_no_room(tmp_path: Path) -> None:
    spool_of(tmp_path, 1, closed=True)
    spool = spool_of(tmp_path)
    (file,) = tmp_path.iterdir()
    kept = file.read_bytes()
    file.unlink()
    file.mkdir()  # it opens for nobody, also not for root
    (file / "content").write_bytes(kept)
    assert spool.append(*record(2))
    assert all_of(spool) == [record(2)]
    assert spool.lost == 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".unreadable"]
    assert (file.with_suffix(".unreadable") / "content").read_bytes() == kept


def test_a_file_stays_until_the_last_of_its_records_has_arrived_also_over_the_end_of_a_process(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 0, 1, 2)
    reports: list[Callable[[bool], None]] = []

    def send(topic: str, key: bytes, value: bytes, arrived: Callable[[bool], None]) -> bool:
        reports.append(arrived)
        return True

    assert spool.drain(send) == 3
    assert not spool, "nothing is left to be handed out"
    assert spool.drain(send) == 0
    reports[2](True)
    reports[0](True)
    assert len(list(tmp_path.iterdir())) == 1
    assert spool.size_bytes > 0
    reports[1](False)
    assert spool.drain(send) == 2
    spool.close()
    following = spool_of(tmp_path)
    reports[-1](True)  # a report that comes after the end takes nothing from the next process
    assert all_of(following)[-2:] == [record(1), record(2)], "from the first that did not arrive"
    assert list(tmp_path.iterdir()) == []
    assert following.size_bytes == 0


def test_a_damaged_record_is_counted_and_the_others_are_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool_of(tmp_path, *range(5), closed=True)
    (file,) = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    data[15] ^= 1
    file.write_bytes(data)
    spool = spool_of(tmp_path)
    assert all_of(spool) == [record(number) for number in range(1, 5)]
    assert spool.lost == 1
    assert "1 damaged records were left out" in caplog.text
