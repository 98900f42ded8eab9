import os
import re
import signal
import socket
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.operator.topics import changelogs_of
from haltline.cli.services.local_system import RunFile
from haltline.cli.services.other_runs import InUse, claimed, port_of
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import PARTITIONS
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import fetch
from haltline.streams.local.subprocesses import ChildDied, Children, TimedOut
from tests.builders import cases
from tests.cli.printing import DEADLINE_S, Printing, printing
from tests.conftest import require_kafka
from tests.mock_cluster import QuickBroker
from tests.waiting import wait_until


def up(tmp_path: Path, *options: str) -> AbstractContextManager[Printing]:
    tmp_path.mkdir(exist_ok=True)
    ports = ("--metrics-port", "0", "--console-port", "0")
    return printing(tmp_path / "printed.txt", "up", "--data", str(tmp_path / "data"), *options, *ports)


def bootstrap_of(running: Printing) -> str:
    """The broker's address, once everything runs."""
    found = re.search(r"HALTLINE_BOOTSTRAP=(\S+)\)", running.wait_for("Ctrl-C ends all"))
    assert found is not None, running.printed
    return found[1]


def kill_and_status(bootstrap: str, *more: str) -> None:
    here = ("--bootstrap", bootstrap, *more)
    kill = ["kill", "s1", "--unknown", "--by", "ada", "--reason", "loops", "--timeout", "60"]
    done = CliRunner().invoke(app, [*kill, *here])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["status", "s1", *here]).exit_code == 1


@pytest.mark.kafka
@pytest.mark.wide  # starts a Kafka and all services; the two runs below show the same on an embedded broker
def test_up_with_a_real_kafka_takes_what_is_not_about_a_cluster_from_the_user_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_kafka()
    fetch()
    everyday = tmp_path / "config" / "haltline" / "haltline.toml"
    everyday.parent.mkdir(parents=True)
    everyday.write_text('[kafka]\nbootstrap = "production:9092"\n[operator]\nname = "ada"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    port = str(LocalKafka(tmp_path / "unused").port)
    with up(tmp_path, "--kafka", "--port", port) as running:
        kill_and_status(bootstrap_of(running))
        assert "(as ada: once" in running.printed, "what is not about a cluster is taken from the user's file"
        assert f"export HALTLINE_CONFIG={tmp_path / 'data' / 'up.toml'}" in running.printed
        running.process.send_signal(signal.SIGINT)
        assert running.exit_code() == 0
        assert running.printed.endswith("Ended.\n")


@cases(
    "text, options, problem",
    {
        "a Kafka to start where another is named": ('[kafka]\nbootstrap = "kafka-1:9092"', ("--kafka",),
            "--kafka: expected no kafka.bootstrap in haltline.toml, or 127.0.0.1:9092; got kafka-1:9092"),
        "a table of an earlier embedded broker": ('[audit]\ntable = "filled"', (),
            "audit.table: expected a new folder for an embedded broker, which starts empty each time; got"),
        "a named broker that does not answer": ('[kafka]\nbootstrap = "127.0.0.1:1"', (), "127.0.0.1:1"),
        "a file that cannot be used": ('[kafka]\nbootstap = "x"', (), "did you mean bootstrap?"),
    },
)  # fmt: skip
def test_up_starts_nothing_with_a_file_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, options: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "haltline.toml").write_text(text)
    (tmp_path / "filled" / "_delta_log").mkdir(parents=True)
    done = CliRunner().invoke(app, ["up", *options], env={"COLUMNS": "400"})
    assert done.exit_code in (2, 3), done.output
    assert problem in done.stderr


def is_whole(table: Path) -> bool:
    """Whether a table has records of every partition of `actions`."""
    query = "SELECT DISTINCT partition FROM audit WHERE topic = 'mine.actions'"
    done = CliRunner().invoke(app, ["audit", "query", query, "--table", str(table), "--json"])
    return done.exit_code == 0 and len(orjson.loads(done.stdout)) == PARTITIONS


def test_two_runs_on_the_broker_that_the_folder_s_file_names_each_have_every_record_and_end_with_a_part_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one, two, topics = tmp_path / "one", tmp_path / "two", Topics("mine.")
    with QuickBroker() as broker:
        broker.ensure_topics(topics, changelogs=[name for group in "ab" for name in changelogs_of(topics, group)])
        (tmp_path / "haltline.toml").write_text(f'[kafka]\nbootstrap = "{broker.bootstrap}"\nprefix = "mine."\n')
        monkeypatch.setenv("HALTLINE_GROUP", "a")
        with up(one) as first:
            assert bootstrap_of(first) == broker.bootstrap
            kill_and_status(broker.bootstrap, "--prefix", "mine.")
            monkeypatch.setenv("HALTLINE_GROUP", "b")  # the workers do not wait for each other
            with up(two, "--rules", "all") as second:
                assert bootstrap_of(second) == broker.bootstrap
                producer = Producer({"bootstrap.servers": broker.bootstrap})
                for partition in range(PARTITIONS):
                    producer.produce(topics.actions, b"{}", partition=partition)
                assert producer.flush(DEADLINE_S) == 0
                for folder in (one, two):
                    table = folder / "data" / "named" / "audit"
                    wait_until(partial(is_whole, table), f"every partition in {table}", deadline_s=DEADLINE_S)
            worker = re.search(r"\(process (\d+)\)", first.printed)
            assert worker is not None
            os.kill(int(worker[1]), signal.SIGKILL)
            assert first.exit_code() == 1
            assert "worker: expected it to run, got its end with exit code -9" in first.printed


def test_a_run_is_known_to_others_until_it_ends_and_has_its_data_folder_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, two = tmp_path / "one", tmp_path / "two"
    with claimed(one) as others:
        assert others == []
        with pytest.raises(InUse, match="it is still starting"), claimed(one):
            pass
        with RunFile(one / "up.toml") as file:
            file.write("127.0.0.1:1", "haltline.", {"table": "audit"}, {"console": "http://127.0.0.1:2"})
            with claimed(two) as beside:
                assert beside == [f"{one}: broker 127.0.0.1:1, console http://127.0.0.1:2"]
    listed = tmp_path / "cache" / "haltline" / "up"
    assert [*listed.iterdir()] == []
    (listed / "killed").write_text(str(one))
    with claimed(two) as others:
        assert others == [], "a run that was killed has let go of its folder"
    assert not (listed / "killed").exists()


def test_a_port_in_use_is_left_to_its_owner_unless_somebody_has_asked_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert port_of("--console-port", port, is_given=False) == 0
        with pytest.raises(InUse, match=rf"--console-port: expected port {port} of 127\.0\.0\.1 free, got one in use"):
            port_of("--console-port", port, is_given=True)
    assert port_of("--console-port", port, is_given=True) == port


def python(children: Children, code: str, *, must_run: bool = True) -> int:
    """Starts a process by `python -m`, as children are: the module is the standard library's timeit."""
    arguments = ["-n", "1", "-r", "1", code]
    return children.start_module("child", "timeit", arguments, must_run=must_run).pid


def test_children_end_with_the_block_and_by_force_when_they_must(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    with Children(tmp_path, stop_within_s=0.2) as children:
        pid = python(children, stubborn)
        children.wait_until(lambda: "deaf" in (tmp_path / "child.log").read_text(), "it is deaf", within_s=DEADLINE_S)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_children_that_die_or_are_late_are_named_and_do_not_hear_of_the_cluster_of_every_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Children(tmp_path) as children:
        python(children, "pass", must_run=False)
        with pytest.raises(TimedOut, match=r"expected the moon within 0\.1 s"):
            children.wait_until(lambda: False, "the moon", within_s=0.1)
        python(children, "import os; print('alas', flush=True); os._exit(7)")
        with pytest.raises(ChildDied, match=r"child: expected it to run, got its end with exit code 7[^$]*alas"):
            children.wait_until(lambda: False, "never", within_s=DEADLINE_S)
    monkeypatch.setenv("HALTLINE_PREFIX", "everyday.")
    log = tmp_path / "child.log"
    with Children(tmp_path) as children:
        python(children, "import os; print('prefix', os.environ.get('HALTLINE_PREFIX'))", must_run=False)
        children.wait_until(lambda: "prefix None" in log.read_text(), "no prefix", within_s=DEADLINE_S)


EVERYDAY = {"HALTLINE_BOOTSTRAP": "127.0.0.1:1", "HALTLINE_PREFIX": "everyday."}
"""Of a user who has a cluster set for every day: the demo must not touch it."""


def demo(tmp_path: Path) -> AbstractContextManager[Printing]:
    words = ("demo", "--keep", str(tmp_path / "kept"))
    return printing(tmp_path / "printed.txt", *words, env=os.environ | EVERYDAY)


def pids_of(printed: str) -> list[int]:
    """The worker's and the audit sink's."""
    found = re.search(r"worker is process (\d+), audit sink (\d+);", printed)
    assert found is not None, printed
    return [int(found[1]), int(found[2])]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_demo_that_is_interrupted_ends_all_that_it_started(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        running.wait_for("worker is process")
        running.process.send_signal(signal.SIGINT)
        assert running.exit_code() == 130, running.printed
        assert not any(map(is_running, pids_of(running.printed)))
        assert "Traceback" not in running.printed


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine.txt").write_text("precious", encoding="utf-8")
    with demo(tmp_path) as running:
        assert running.exit_code() == 2
        assert "--keep: expected a folder that is new or empty" in running.printed
