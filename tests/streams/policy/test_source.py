"""A policy that changes while the worker runs: from a file, and from the topic."""

import os
import signal
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaError, Producer

from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.subprocesses import Child
from haltline.streams.local.system import health_url
from haltline.streams.policy.loader import BadPolicy, parse_policy
from haltline.streams.policy.publish import publish
from haltline.streams.policy.source import News, PolicyFile, PolicySource, PolicyTopic, Refusal, current
from tests.builders import T0_MS, cases
from tests.interventions.control.core_session import CoreSession
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.commands import said
from tests.streams.running import running_worker
from tests.waiting import wait_until

TOPICS = Topics()


@pytest.fixture
def bootstrap(embedded: EmbeddedBroker) -> str:
    return embedded.bootstrap


def put(bootstrap: str, topic: str, *records: tuple[str, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key, value in records:
        producer.produce(topic, key=key.encode(), value=value)
    assert producer.flush(10) == 0


def document(version: int, name: str = "default", **fields: object) -> tuple[str, bytes]:
    return name, orjson.dumps({"name": name, "version": version, **fields})


def next_of(source: PolicySource) -> News:
    found: list[News] = []

    def came() -> bool:
        found.extend(source.take())
        return bool(found)

    wait_until(came, "the policy's source tells something")
    assert len(found) == 1
    return found[0]


def followed(bootstrap: str) -> "closing[PolicyTopic]":
    return closing(PolicyTopic(bootstrap, TOPICS.policies, fetch_wait_ms=10))


def version(news: News) -> int:
    assert isinstance(news, Core), news
    return news.policy.version


def test_a_file_that_is_wrong_or_in_vain_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\n", encoding="utf-8")
    source = PolicyFile(file)

    def looked(text: str | None) -> News:
        file.unlink() if text is None else file.write_text(text, encoding="utf-8")
        source.look()
        return next_of(source)

    with closing(source):
        for text, problem in {
            "": "got an empty document",
            "version: 2\nrules:\n": "rules",
            "version: 2\ncooldown_s: 3": ":2: expected a line break at the end",
            "version: 3\ncooldown: 5\n": f"{file}:2: cooldown: ",
            None: "No such file",
        }.items():
            refused = looked(text)
            assert isinstance(refused, Refusal)
            assert problem in refused.detail
        assert version(looked('{"version": 2, "cooldown_s": 30}')) == 2
    file = tmp_path / "in-vain.yaml"
    file.touch()
    with pytest.raises(BadPolicy, match="got an empty document"):
        PolicyFile(file)
    caplog.clear()
    gone = (
        "rules: {agent_baseline: {mode: warn}, behavioral_drift: {}, exploration_wandering: {settings: {window: 9}}}\n"
    )
    file.write_text(gone, encoding="utf-8")  # as a document of the release that had them
    PolicyFile(file).close()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "Instead of agent_baseline: agent_budget" in warning
    file.write_text("overrides: [{agent: a, rules: {cycle: {mode: shadow}}}]", encoding="utf-8")
    PolicyFile(file).close()
    assert "overrides.0.rules.cycle.mode: shadow is looser than enforce, which holds" in caplog.text


def test_the_topic_is_read_to_its_end_and_documents_that_can_all_not_be_used_are_no_start(bootstrap: str) -> None:
    put(bootstrap, TOPICS.policies, document(2, nonsense=1))
    with pytest.raises(BadPolicy, match=r"haltline\.policies \d:0:1: nonsense: "):
        followed(bootstrap)
    put(bootstrap, TOPICS.policies, document(2), document(9, "other"), document(3), ("default", b"{nonsense"))
    with followed(bootstrap) as source:
        assert source.core.policy.version == 3, "the last one that can be used"


def test_what_comes_on_the_topic_holds_or_is_refused_whole(bootstrap: str) -> None:
    with followed(bootstrap) as source:
        assert (source.core.policy, source.take()) == (Policy(), [])
        put(bootstrap, TOPICS.policies, document(9, "other"), document(2, preset="starter"))
        core = next_of(source)
        assert isinstance(core, Core)
        assert (core.policy.version, core.policy.preset) == (2, None)
        assert "destructive_volume" in core.policy.rules
        bad = orjson.dumps({"version": 3, "rules": {"destructive_volume": {"settings": {"max_deletes": 0}}}})
        put(bootstrap, TOPICS.policies, ("default", bad))
        refused = next_of(source)
        assert isinstance(refused, Refusal)
        assert "rules.destructive_volume.settings.max_deletes: expected " in refused.detail
        assert refused.record is not None
        assert refused.record.value == bad
        put(bootstrap, TOPICS.policies, ("default", orjson.dumps({"name": "other"})))
        refused = next_of(source)
        assert isinstance(refused, Refusal)
        assert "name: expected 'default' as the record's key says, got 'other'" in refused.detail
        put(bootstrap, TOPICS.policies, ("default", None))
        taken_away = next_of(source)
        assert isinstance(taken_away, Core)
        assert taken_away.policy == Policy()


def test_the_topic_is_followed_on_when_a_worker_is_refused_or_loses_the_broker_for_a_while() -> None:
    with MockCluster() as cluster:
        cluster.create_topic(TOPICS.policies)
        put(cluster.bootstrap, TOPICS.policies, document(2))
        with followed(cluster.bootstrap) as source:
            cluster.fail_next(ApiKey.FETCH, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)
            put(cluster.bootstrap, TOPICS.policies, document(3))
            assert version(next_of(source)) == 3, "and what was known already is not told again"
            cluster.set_down()
            cluster.set_up()
            put(cluster.bootstrap, TOPICS.policies, document(4))
            assert version(next_of(source)) == 4


def published(bootstrap: str, text: str) -> Policy:
    policy, _ = publish(
        parse_policy(text), bootstrap=bootstrap, topic=TOPICS.policies, by="ada", reason="as agreed", time_ms=T0_MS,
    )  # fmt: skip
    return policy


def test_a_published_document_says_who_and_why_and_a_version_is_published_once(bootstrap: str) -> None:
    text = "rules: {cycle: {mode: warn}}\noverrides: [{agent: a, rules: {budget: {settings: {limits: {calls: 9}}}}}]"
    assert published(bootstrap, text).version == 2
    (record,) = current(bootstrap, TOPICS.policies).values()
    assert orjson.loads(record.value or b"") == {
        "v": 1,
        "name": "default",
        "version": 2,
        "rules": {"cycle": {"mode": "warn"}},
        "overrides": [{"agent": "a", "rules": {"budget": {"settings": {"limits": {"calls": 9}}}}}],
        "published": {"by": "ada", "reason": "as agreed", "time": T0_MS},
    }
    assert parse_policy((record.value or b"").decode()) == published(bootstrap, text).model_copy(update={"version": 2})
    assert published(bootstrap, "version: 7").version == 7
    with pytest.raises(BadPolicy, match=r"version: expected more than 7, which is there under 'default', got 7"):
        published(bootstrap, "version: 7")
    assert published(bootstrap, "cooldown_s: 5").version == 8
    assert published(bootstrap, "name: other").version == 2
    documents = {name: orjson.loads(r.value or b"") for name, r in current(bootstrap, TOPICS.policies).items()}
    assert {name: result["version"] for name, result in documents.items()} == {"default": 8, "other": 2}


MUTE = ("policy", "mute", "destructive_repeat", "--until", "1d")


def commanded(bootstrap: str, *words: str, agent: str = "night[1]") -> tuple[int, str]:
    return said(*words, "--agent", agent, "--by", "ada", "--reason", "is rewritten", "--bootstrap", bootstrap)


def test_a_muted_rule_records_for_its_agent_until_the_time_and_later_documents_keep_the_mute(bootstrap: str) -> None:
    published(bootstrap, "version: 7")
    assert commanded(bootstrap, *MUTE)[1].startswith("policy default, version 8: destructive_repeat is muted for agent")
    assert published(bootstrap, "version: 9").version == 9
    with followed(bootstrap) as source:
        core = source.core

    def found(agent: str, since_s: float) -> tuple[list[str], bool]:
        session = CoreSession()
        session.core = core
        effects = [session.does(since_s + second, agent_id=agent) for second in range(3)][-1]
        modes = [one.mode for one in effects.detections if one.finding.detector == "destructive_repeat"]
        return modes, session.known.control.killed is not None

    over_s = time.time() + 90_000 - T0_MS / 1000
    assert found("night[1]", 0) == (["shadow"], False)
    for agent, since_s in (("night1", 0.0), ("night[1]", over_s)):
        assert found(agent, since_s) == (["enforce"], True)
    assert commanded(bootstrap, "policy", "unmute", "destructive_repeat")[0] == 0
    (record,) = current(bootstrap, TOPICS.policies).values()
    assert orjson.loads(record.value or b"")["overrides"] == []


@cases(
    "words, problem",
    {
        "a budget": (("mute", "budget", "--until", "1d"), "a budget is changed in the policy"),
        "a rule of the fleet": (
            ("mute", "fleet_spike", "--until", "1d"),
            "about an agent or its sessions, got fleet_sp",
        ),
        "a rule that is none": (("mute", "cycles", "--until", "1d"), "got 'cycles'"),
        "a time that is past": (("mute", "cycle", "--until", "2025-01-01"), "until: expected a time after"),
        "a time that is none": (("mute", "cycle", "--until", "soon"), "or how long (7d), got 'soon'"),
        "the end of none": (("unmute", "cycle"), "expected a mute of cycle for agent night[1], got none"),
    },
)
def test_what_cannot_be_muted_is_refused(bootstrap: str, words: tuple[str, ...], problem: str) -> None:
    code, text = commanded(bootstrap, "policy", *words)
    assert (code, problem in text) == (2, True), text


def says(worker: Child, line: str) -> bool:
    """Return whether the worker's metrics have this line now."""
    with urllib.request.urlopen(f"{health_url(worker)}/metrics", timeout=30) as page:
        return f"haltline_{line}" in page.read().decode().splitlines()


def test_a_running_worker_takes_a_published_policy_in_and_keeps_it_over_a_bad_one(
    bootstrap: str, tmp_path: Path
) -> None:
    with running_worker(bootstrap, tmp_path) as worker:
        published(bootstrap, "version: 5")
        wait_until(lambda: says(worker, 'policy_version{policy="default"} 5.0'), "the published policy is in force")
        put(bootstrap, TOPICS.policies, document(6, nonsense=1))
        wait_until(lambda: says(worker, "policies_refused_total 1.0"), "the bad policy is refused")
        assert says(worker, 'policy_version{policy="default"} 5.0')
        assert says(worker, 'dead_letters_total{reason="invalid"} 1.0')
        worker.require_running()


def test_a_running_worker_reads_its_file_again_on_sighup(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 3\n", encoding="utf-8")
    with running_worker(bootstrap, tmp_path, "--policy", str(file)) as worker:
        file.write_text("version: 4\n", encoding="utf-8")
        os.kill(worker.pid, signal.SIGHUP)
        wait_until(lambda: says(worker, 'policy_version{policy="default"} 4.0'), "the file's new policy is in force")
