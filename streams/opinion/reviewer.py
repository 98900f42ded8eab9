"""The reviewer process: reads decisions with a request, and writes a model's answers to the `opinions` topic.

An offset may be committed before the answer is written: after a crash a request stays without an answer, for which the
policy has a rule, and no model call is paid twice. Spending is read back from the topic at the start.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from haltline.interventions.agent.redaction.secrets import redact_text
from haltline.interventions.state.session_control import digest
from haltline.schemas.decisions import Decision
from haltline.schemas.opinions import TELL_CHARS, WHY_CHARS, Opinion, OpinionOutcome, OpinionRules
from haltline.schemas.partitioner import CONFIRMED
from haltline.schemas.wire import InvalidRecord, decode
from haltline.streams.kafka.broker_outage import BrokerOutage
from haltline.streams.kafka.log_reader import LogReader, Unreachable
from haltline.streams.opinion.digest import Digest, digest_of
from haltline.streams.opinion.judge import MAX_OUTPUT_TOKENS, Judge, NoVerdict, Usage
from haltline.streams.opinion.spending import DAY_MS, OverLimit, Spending
from haltline.streams.opinion.steps import last_events
from haltline.streams.policy.source import PolicySource, Refusal
from haltline.streams.runtime.health import Verdict
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.service import GroupSettings, verdict_of_loop

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_AT_ONCE: Final = 4
_READ_WITHIN_S: Final = 10.0
_FLUSH_S: Final = 15.0
_REQUESTED: Final = b'"opinion":{'
_NOTHING: Final = Usage(prompt_tokens=0, completion_tokens=0)
_EVENTS_A_STEP: Final = 3
"""The events of one step: a call, its result, and the turn of the model before it."""


@dataclass(frozen=True, kw_only=True)
class ReviewerSettings(GroupSettings):
    """The settings of a reviewer."""

    group: str = "haltline-opinion"
    offset_reset: str = "latest"
    """The offset at which a new group begins: older requests have expired."""


class Reviewer:
    """Answers requests until `stop`, by the policy in force; without `opinion` in it, no decision has a request."""

    def __init__(
        self,
        settings: ReviewerSettings,
        judge: Judge,
        policies: PolicySource,
        metrics: Metrics,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._now_ms = now_ms
        self._settings = settings
        self._judge = judge
        self._policies = policies
        self._rules = policies.core.policy.opinion or OpinionRules()
        self._spending = Spending()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._round_s = time.monotonic()
        self._partitions = 0
        self._outage = BrokerOutage(_log, "opinion")
        self._outcomes = metrics.counter("opinions_total")
        self._seconds = metrics.histogram("opinion_seconds")
        self._tokens = metrics.counter("opinion_tokens_total")
        self._cost = metrics.counter("opinion_cost_usd_total")
        client = {**settings.client, "bootstrap.servers": settings.bootstrap}
        self._producer = Producer({**client, **CONFIRMED, "linger.ms": 2}, logger=_log)

    def run(self) -> None:
        """Run until `stop`. Raises NoSuchTopic, Unreachable, KafkaException, RuntimeError when it cannot continue."""
        self.recall()
        consumer = Consumer(self._settings.consumer(self._outage.is_outage), logger=_log)
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="opinion")
        try:
            consumer.subscribe([self._settings.topics.interventions])
            while not self._stop.is_set():
                message = consumer.poll(_POLL_S)
                self._round_s, self._partitions = time.monotonic(), len(consumer.assignment())
                self._producer.poll(0)
                self._outage.look(consumer, self._settings.topics.interventions)
                self._renew()
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    self._outage.require_temporary(error)
                elif _REQUESTED in (value := message.value() or b""):
                    pool.submit(self._answer, value).add_done_callback(self._done)
        finally:
            pool.shutdown(cancel_futures=True)
            self._producer.flush(_FLUSH_S)
            consumer.close()
        if self._failure is not None:
            raise RuntimeError(f"opinion: {self._failure!r}") from self._failure

    def stop(self) -> None:
        """Stop after the running request. Safe in any thread, and in signal handlers."""
        self._stop.set()

    def verdict(self) -> Verdict:
        """Return a verdict: alive while the main loop runs; ready while partitions are assigned too."""
        return verdict_of_loop(time.monotonic() - self._round_s, "process", self._partitions)

    def opinion_on(self, decision: Decision) -> Opinion:
        """Return a model's answer, or why there is none. Asks within the policy's limits and time."""
        rules, began_s = self._rules, time.monotonic()
        spent: dict[str, Any] = {}
        try:
            found = self._verdict_on(decision, rules, spent)
        except NoVerdict as none:
            found = {"outcome": none.outcome, "detail": none.detail}
        seconds = round(time.monotonic() - began_s, 3)
        opinion = Opinion(
            opinion_id=digest("opinion", decision.decision_id),
            decision_id=decision.decision_id,
            event_id=decision.event_id,
            session_id=decision.session_id,
            agent_id=decision.agent_id,
            detector=decision.detector,
            time=self._now_ms(),
            model=self._judge.model[:512],
            seconds=seconds,
            **found,
            **spent,
        )
        self._outcomes.labels(opinion.detector, opinion.outcome.value).inc()
        self._seconds.observe(seconds)
        self._tokens.labels("input").inc(opinion.input_tokens)
        self._tokens.labels("output").inc(opinion.output_tokens)
        self._cost.inc(opinion.cost_usd)
        return opinion

    def _verdict_on(self, decision: Decision, rules: OpinionRules, spent: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict's fields; `spent` gets the cost, also without a verdict. Raises NoVerdict."""
        ends_s = time.monotonic() + rules.timeout_s - (self._now_ms() - (decision.decided_at or self._now_ms())) / 1000
        shown = self._digest(decision, rules, ends_s)
        # Models differ in the length of a token; three characters are less than one takes.
        most = Usage(prompt_tokens=shown.chars // 3 + 1, completion_tokens=MAX_OUTPUT_TOKENS)
        try:
            request = self._spending.reserve(rules, _cost(rules, most), self._now_ms())
        except OverLimit as over:
            raise NoVerdict(OpinionOutcome.OVER_LIMIT, str(over)) from None
        used: Usage | None = None
        try:
            answer, used = self._judge.ask(shown, _left(ends_s))
        except NoVerdict as none:
            # Refused requests and connection failures cost nothing; without a reported usage, the maximum is assumed.
            used = none.used or (_NOTHING if none.outcome is OpinionOutcome.ERROR else most)
            raise
        finally:
            used = used or most
            request.usd = _cost(rules, used)
            spent |= {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens}
            spent["cost_usd"] = round(request.usd, 6)
        _left(ends_s)
        outcome = OpinionOutcome(answer.verdict)
        if outcome is OpinionOutcome.SOUND and shown.is_suspect:
            raise NoVerdict(OpinionOutcome.SUSPECT, "sound, and a text of the session tells a judge what to answer")
        since = None if answer.since_step is None else shown.event_ids[answer.since_step - 1]
        return {
            "outcome": outcome,
            "since": since,
            "why": _line(answer.why)[:WHY_CHARS],
            "tell": _line(answer.tell)[:TELL_CHARS],
        }

    def _digest(self, decision: Decision, rules: OpinionRules, ends_s: float) -> Digest:
        settings = self._settings
        at = next((e for e in decision.evidence if e.event_id == decision.event_id), None)
        if (
            at is None
            or at.topic not in [one.actions for one in settings.topics.sets]
            or at.partition is None
            or at.offset is None
        ):
            raise NoVerdict(OpinionOutcome.NO_STEPS, "expected the place of its event, got none")
        try:
            events = last_events(
                settings.bootstrap,
                TopicPartition(at.topic, at.partition, at.offset),
                decision.session_id,
                _EVENTS_A_STEP * rules.max_steps,
                client=settings.client,
                within_s=min(_READ_WITHIN_S, _left(ends_s)),
            )
        except (Unreachable, KafkaException) as failed:
            raise NoVerdict(OpinionOutcome.NO_STEPS, str(failed)) from None
        if not events:
            raise NoVerdict(OpinionOutcome.NO_STEPS, f"expected events up to offset {at.offset}, got none")
        return digest_of(decision, events, max_steps=rules.max_steps, boundary=f"=== {secrets.token_hex(8)}")

    def _answer(self, value: bytes) -> None:
        try:
            decision = decode(Decision, value)
        except InvalidRecord as bad:
            _log.error("opinion: a decision cannot be read: %s", bad)
            return
        if decision.opinion is None:
            return
        opinion = self.opinion_on(decision)
        key = opinion.session_id.encode()
        topic = self._settings.topics.opinions
        self._producer.produce(topic, key=key, value=opinion.to_json(), on_delivery=_delivered)

    def _done(self, done: Future[None]) -> None:
        if not done.cancelled() and (failure := done.exception()) is not None:
            self._failure = failure
            self._stop.set()

    def recall(self) -> None:
        """Read back the spending of the last day."""
        settings, since_ms = self._settings, self._now_ms() - DAY_MS
        topics = [settings.topics.opinions]
        with LogReader(settings.bootstrap, topics, since_ms=since_ms, client=settings.client) as reader:
            for message in reader.to_end():
                try:
                    opinion = decode(Opinion, message.value())
                except InvalidRecord:
                    continue
                if opinion.time > since_ms and opinion.input_tokens:
                    self._spending.recall(opinion.time, opinion.cost_usd)

    def _renew(self) -> None:
        for news in self._policies.take():
            if not isinstance(news, Refusal):
                self._rules = news.policy.opinion or OpinionRules()


def _left(ends_s: float) -> float:
    """Return the seconds left. Raises NoVerdict when there are none."""
    left_s = ends_s - time.monotonic()
    if left_s <= 0:
        raise NoVerdict(OpinionOutcome.TIMEOUT, "the time for an answer is over")
    return left_s


def _cost(rules: OpinionRules, used: Usage) -> float:
    return (used.prompt_tokens * rules.input_usd + used.completion_tokens * rules.output_usd) / 1e6


def _delivered(error: KafkaError | None, _: Message) -> None:
    if error is not None:  # there is no answer then, and its cost is not recalled after a restart
        _log.error("opinion: an answer could not be written: %s", error.str())


def _line(text: str) -> str:
    return redact_text(" ".join(text.split()))
