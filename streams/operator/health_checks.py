"""The checks of `haltline doctor` on the cluster and the processes, each with its finding and a remedy."""

import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import orjson
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConfigResource,
)
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from prometheus_client.parser import text_string_to_metric_families

from haltline.schemas.topics import Topics
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import NoSuchTopic, Unreachable
from haltline.streams.operator.client import Operator, PartitionLag

ANSWER_WITHIN_S: Final = 3.0
_CLOCK_OFF_S: Final = 5.0
"""A clock offset that matters: deadlines of kills and approvals are some seconds long."""
_CANARY_WITHIN_S: Final = 900.0
_ACLS_WITHIN_S: Final = 10.0
_MANY_RECORDS: Final = 10_000
_MOVES_WITHIN_S: Final = 3.0
"""A worker commits about once a second."""
_LOOK_EVERY_S: Final = 0.2
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Verdict(StrEnum):
    """The verdict of a check."""

    OK = "ok"
    BAD = "bad"
    NOTE = "note"
    """Worth knowing, but not a failure."""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    what: str
    verdict: Verdict
    found: str
    do: str = ""
    """The remedy."""


def ok(what: str, found: str, do: str = "") -> Check:
    """Return a check without a problem."""
    return Check(what, Verdict.OK, found, do)


def bad(what: str, found: str, do: str) -> Check:
    """Return a problem with its remedy."""
    return Check(what, Verdict.BAD, found, do)


def note(what: str, found: str, do: str) -> Check:
    """Return what is worth knowing."""
    return Check(what, Verdict.NOTE, found, do)


def _checked(what: str, who: str, check: Callable[[], Check]) -> Check:
    """Return the result of a check of the cluster; a note if it does not answer, or refuses this client."""
    try:
        return check()
    except (NoSuchTopic, Unreachable) as refused:
        found = str(refused)
    except KafkaException as refused:
        found = refused.args[0].str()
    return note(what, found, f"ask as {who} (--client-config)")


def at_once(*asked: Callable[[], _T]) -> list[_T]:
    """Return the results of all of these in their order, waiting for as long as the slowest takes."""
    with ThreadPoolExecutor(len(asked)) as pool:
        return [one.result() for one in [pool.submit(each) for each in asked]]


# Access rights


def writers(bindings: Iterable[AclBinding], topic: str) -> set[str]:
    """Return the principals that may write a topic. Denials are ignored: they only make it stricter."""
    return {
        binding.principal
        for binding in bindings
        if binding.permission_type == AclPermissionType.ALLOW
        and binding.operation in {AclOperation.WRITE, AclOperation.ALL}
        and _covers(binding, topic)
    }


def _covers(binding: AclBinding, topic: str) -> bool:
    if binding.restype != ResourceType.TOPIC:
        return False
    if binding.resource_pattern_type == ResourcePatternType.PREFIXED:
        return topic.startswith(binding.name)
    return binding.name in {topic, "*"}


def permissions(bindings: Iterable[AclBinding], topics: Topics, agent: str) -> Check:
    """Check that the permissions do not let an agent release itself, or decide about others."""
    known = list(bindings)
    what = "permissions"
    for topic in (topics.control, topics.interventions, topics.commands):
        if wrong := sorted(writers(known, topic) & {agent, "User:*"}):
            return bad(
                what,
                f"{', '.join(wrong)} may write {topic}: an agent can release itself",
                "take that away (kafka-acls.sh --remove), and see haltline topics acls",
            )
    if agent not in writers(known, topics.actions):
        return bad(
            what,
            f"{agent} may not write {topics.actions}",
            "haltline topics acls --apply as the administrator; or say who the agents are (--agent)",
        )
    return ok(what, f"{agent} writes what it does, and neither commands nor decisions")


def check_permissions(admin: AdminClient, topics: Topics, agent: str) -> Check:
    """Check the permissions of a cluster, like `permissions`."""
    # The types require every field of a filter; None matches anything.
    everything: Any = None
    any_acl = AclBindingFilter(
        ResourceType.TOPIC,
        everything,
        ResourcePatternType.ANY,
        everything,
        everything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )

    def check() -> Check:
        if not _authorizer(admin):
            found = "the cluster has no authorizer: every client can release an agent"
            do = "set authorizer.class.name, then haltline topics acls --apply"
            return note("permissions", found, do)
        return permissions(admin.describe_acls(any_acl, request_timeout=_ACLS_WITHIN_S).result(), topics, agent)

    return _checked("permissions", "the administrator", check)


def _authorizer(admin: AdminClient) -> str:
    """Return the authorizer class; without one, the client shows an empty list of permissions."""
    broker = str(admin.list_topics(timeout=_ACLS_WITHIN_S).controller_id)
    (described,) = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.BROKER, broker)], request_timeout=_ACLS_WITHIN_S
    ).values()
    return str(described.result()["authorizer.class.name"].value or "")


# The topics' content


def progress(
    what: str, lag: Callable[[], list[PartitionLag]], group: str, do: str, *, worst: Verdict = Verdict.BAD
) -> Check:
    """Check a group's progress: `worst` if records wait, and it commits none of them within some seconds."""
    partitions = lag()
    records, began_s = sum(partition.lag_records for partition in partitions), time.monotonic()
    while records and time.monotonic() - began_s < _MOVES_WITHIN_S:
        time.sleep(_LOOK_EVERY_S)
        before = {(one.topic, one.partition): one.committed for one in partitions}
        later = lag()
        if any(one.committed != before[one.topic, one.partition] for one in later):
            break
    else:
        if records and all(partition.committed is None for partition in partitions):
            return Check(what, worst, f"{records} records wait, and no member of group {group} has committed yet", do)
        if records:
            found = f"{records} records wait, and group {group} has read none in {_MOVES_WITHIN_S:.0f} s"
            return Check(what, worst, found, do)
    if records > _MANY_RECORDS:
        return note(what, f"{records} records wait", "see deploy/runbooks/HaltlineBehind.md")
    return ok(what, f"{records} records wait")


def check_progress(
    what: str,
    bootstrap: str,
    topics: Topics,
    *,
    group: str,
    do: str,
    client: Mapping[str, ClientSetting],
    worst: Verdict = Verdict.BAD,
) -> Check:
    """Check the progress of a group on a cluster, like `progress`."""
    operator = Operator(bootstrap, topics=topics, group=group, client=client)
    return _checked(what, "an operator", lambda: progress(what, operator.lag, group, do, worst=worst))


def shadow_progress(bootstrap: str, topics: Topics, *, group: str, client: Mapping[str, ClientSetting]) -> Check:
    """Check the progress of the group for rules in shadow: never bad, because it stops nothing."""
    what, name = "shadow workers' progress", Runs.SHADOW.group(group)
    do = f"haltline worker --rules shadow --bootstrap {bootstrap} --group {group}, where workers run --rules enforced"
    return check_progress(what, bootstrap, topics, group=name, do=do, client=client, worst=Verdict.NOTE)


def published_policies(bootstrap: str, topics: Topics, client: Mapping[str, ClientSetting]) -> Check:
    """Check that workers can use the published policies."""
    from haltline.streams.engine.plugins import installed  # noqa: PLC0415  # brings every detector
    from haltline.streams.policy.loader import parse_policy  # noqa: PLC0415
    from haltline.streams.policy.source import current  # noqa: PLC0415  # as above

    def check() -> Check:
        plugins, reports = installed(), []
        for name, record in sorted(current(bootstrap, topics.policies, client=client).items()):
            try:
                policy = parse_policy((record.value or b"").decode(errors="replace"), f"policy {name}", plugins)
            except ValueError as wrong:
                do = "haltline policy check FILE, then haltline policy publish FILE"
                return bad("policy", str(wrong), do)
            reports.append(f"{name} (version {policy.version})")
        return ok("policy", ", ".join(reports) or "none is published: workers run with every default")

    return _checked("policy", "an operator", check)


# The processes' own reports


@dataclass(frozen=True)
class CommandReport:
    """An answer over HTTP; status 0 if there was none."""

    status: int
    body: str
    clock_off_s: float | None = None
    """The other clock's offset from ours, in whole seconds."""


def ask(url: str) -> CommandReport:
    """Return a process's answer."""
    try:
        try:
            response = urllib.request.urlopen(url, timeout=ANSWER_WITHIN_S)
        except urllib.error.HTTPError as refused:
            response = refused
        with response:
            body, date = response.read().decode(errors="replace"), response.headers.get("Date")
    except (OSError, ValueError) as error:
        return CommandReport(0, f"{url}: {getattr(error, 'reason', error)}")
    with suppress(ValueError):
        off_s = None if date is None else parsedate_to_datetime(date).timestamp() - time.time()
        return CommandReport(response.status, body, off_s)
    return CommandReport(response.status, body)


def health(what: str, url: str, *, needed: bool, do: str) -> Iterator[Check]:
    """Check that a process is alive and ready. If it is absent and not needed, that is a note."""
    for path in ("/healthz", "/readyz"):
        reply = ask(url + path)
        name = f"{what}'s {'health' if path == '/healthz' else 'readiness'}"
        if reply.status == 0:
            yield Check(name, Verdict.BAD if needed else Verdict.NOTE, reply.body, do)
            return
        good = reply.status == 200
        yield Check(name, Verdict.OK if good else Verdict.BAD, _reasons(reply.body), "" if good else "see its log")


def _reasons(body: str) -> str:
    """Return a process's own reasons for its health."""
    try:
        status = orjson.loads(body)
        if "partitions" in status:
            well = [f"{status['partitions']} partitions, {status['lag_records']} records wait"]
            return "; ".join([*(status["reasons"] or well), *status.get("notes", ())])
        return str(status.get("problem") or ("well" if status["ok"] else "not ready"))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return body[:200]


def canary(url: str, now_s: float) -> Check:
    """Check the result of the last canary."""
    reply = ask(url + "/metrics")
    do = "haltline canary; see deploy/runbooks/HaltlineCanaryNotStopped.md"
    if reply.status != 200:
        return note(
            "canary", reply.body[:200], "start one (haltline canary --every 5m), or give its address (--canary)"
        )
    try:
        metrics = {one.name: one.samples[0].value for one in text_string_to_metric_families(reply.body) if one.samples}
        up, flown_s = metrics["haltline_canary_up"], metrics["haltline_canary_last_flight_timestamp_seconds"]
    except (KeyError, ValueError):
        return note("canary", f"{url} has reported no canary yet", "wait for its first flight")
    if not up:
        return bad("canary", "the last session that had to be killed was not", do)
    ago_s = now_s - flown_s
    if ago_s > _CANARY_WITHIN_S:
        return bad("canary", f"the last one flew {ago_s:.0f} s ago", do)
    return ok("canary", f"stopped {ago_s:.0f} s ago, after {metrics.get('haltline_canary_seconds', 0):.1f} s")


def intake(url: str) -> Check:
    """Check that an intake reaches its broker, and whether its own port is encrypted."""
    reply = ask(url + "/healthz")
    if reply.status == 0:
        return note("intake", reply.body, "start one (haltline intake), or give its address (--intake)")
    if reply.status != HTTPStatus.OK:
        return bad("intake", f"its broker does not answer: {reply.body[:200]}", "see its log")
    address = urlsplit(url)
    if address.scheme != "https" and address.hostname not in _LOOPBACK:
        found = "well, and without TLS: its keys and what agents do can be read on the network"
        return note("intake", found, "haltline intake --tls-config FILE, or a proxy with TLS before it")
    return ok("intake", "well" if address.scheme != "https" else "well, with TLS")


def usage(url: str) -> Check:
    """Check that a worker knows the usage of the models' turns."""
    reply = ask(url + "/metrics")
    if reply.status != 200:
        return note("usage", reply.body[:200], "start a worker, or give its address (--worker)")
    try:
        turns = {
            sample.labels["usage"]: sample.value
            for family in text_string_to_metric_families(reply.body)
            for sample in family.samples
            if sample.name == "haltline_model_turns_total"
        }
        unknown, turns_in_all = turns["unknown"], sum(turns.values())
    except (KeyError, ValueError):
        return note("usage", f"{url} does not count turns of models", "upgrade the worker")
    if unknown:
        found = f"usage unknown of {unknown:.0f} of {turns_in_all:.0f} model turns: budgets do not count them"
        return note("usage", found, 'see "Usage unknown" in docs/operate.md')
    return ok("usage", f"known of {turns_in_all:.0f} model turns")


def clocks(reports: Mapping[str, CommandReport]) -> Check:
    """Check that the machines' clocks agree."""
    known = {where: one.clock_off_s for where, one in reports.items() if one.clock_off_s is not None}
    if not known:
        return note("clocks", "no process reported its time", "start a worker, or give its address (--worker)")
    where, off_s = max(known.items(), key=lambda one: abs(one[1]))
    if abs(off_s) > _CLOCK_OFF_S:
        return bad("clocks", f"that of {where} is {off_s:+.0f} s off this one", "run NTP on both")
    return ok("clocks", f"within {max(1.0, abs(off_s)):.0f} s of {len(known)} other processes")
