"""Agent-hooks's own conformance kit: its vectors, with haltline at its reference host. Run with its driver."""

import asyncio
from functools import partial
from typing import Any

from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionEmitter, Verdict
from agent_hooks.ctk import ScriptedInterceptor, load_vectors, run_vector
from agent_hooks.ctk.reference import ReferenceHarness
from agent_hooks.ctk.scripted import RecordingInterceptor

from haltline.interventions.agent.integrations.agent_hooks import HaltlineInterceptor, transform_of
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Outcome
from tests.conformance.cases import Case, asks
from tests.conformance.own import OWN, own
from tests.conformance.own.agent_hooks_vectors import BESIDE, IN_PLACE, NAMES, NOT_RUN
from tests.interventions.agent.attempts import outcomes

VECTORS = {vector["id"]: vector for vector in load_vectors()}
RAISES = {"decision": "deny"}
"""The expected verdict of haltline if the vector's interceptor raises."""


class Stand(ScriptedGuard):
    """Decides what the verdict that is wanted next says."""

    def __init__(self) -> None:
        super().__init__(*[self.decided] * 20, agent_id="a")
        self.wanted: dict[str, Any] | None = None

    def action(self, *args: Any, **options: Any) -> Any:
        if self.wanted is RAISES:
            raise RuntimeError("broken")
        return super().action(*args, **options)

    def decided(self, event: ActionEvent) -> Decision:
        wanted = self.wanted or {"decision": "allow"}
        if wanted["decision"] == "deny":
            return decision(Level.BLOCK, event, code=wanted["reason"])
        if wanted["decision"] == "transform":
            name = wanted["transform"]["path"].partition(".")[2]
            return decision(Level.NUDGE, event, arguments={name: wanted["transform"]["value"]})
        return decision(Level.ALLOW, event)


class Haltline:
    """The interceptor, where the kit's was, whose script says what it has to decide. Without one it allows."""

    def __init__(self, script: ScriptedInterceptor | None = None) -> None:
        self.asked = 0
        self.wrong: list[str] = []
        self._script = script
        self._guard = Stand()
        self._interceptor = HaltlineInterceptor(self._guard)

    async def intercept(self, context: Any) -> Verdict:
        self.asked += 1
        wanted = self._wanted(context)
        self._guard.wanted = wanted
        if wanted["decision"] == "deny" and context["interception_point"] != "pre_tool_call":
            self._guard.kill(code=wanted["reason"])
        given = await self._interceptor.intercept(context)
        if given.decision.value != wanted["decision"]:
            self.wrong.append(f"{context['interception_point']}: expected {wanted}, got {given}")
        return given

    def _wanted(self, context: Any) -> dict[str, Any]:
        if self._script is None:
            return {"decision": "allow"}
        try:
            return self._script.intercept(context)
        except RuntimeError:
            return RAISES


def gives(script: ScriptedInterceptor) -> bool:
    """Return whether haltline can give each verdict of a script."""
    for rule in script.rules:
        verdict, point = rule.get("return"), rule["at"]
        if verdict is None:
            if rule["fault"] != "raise":
                return False
        elif verdict["decision"] == "deny":
            if "approval" in verdict or point not in {"pre_tool_call", "pre_model_call", "agent_startup"}:
                return False
        elif verdict["decision"] == "transform":
            if point != "pre_tool_call" or verdict["transform"]["path"].count(".") != 1:
                return False
        elif verdict.keys() - {"decision"}:
            return False
    return True


class Host(ReferenceHarness):
    """The kit's reference host, with haltline in place of its interceptors, or beside them."""

    def __init__(self, *, beside: bool) -> None:
        super().__init__()
        self.ours: list[Haltline] = []
        self._beside = beside

    def setup(self, scenario: Any, interceptors: list[Any], *args: Any, **options: Any) -> None:
        if self._beside:
            self.ours.append(Haltline())
            interceptors = [*interceptors, self.ours[0]]
        else:
            interceptors = [self._replaced(one) for one in interceptors]
        super().setup(scenario, interceptors, *args, **options)

    def setup_declared(self, scenario: Any, document: dict[str, Any], registry: Any) -> None:
        """The document names a kind of the kit: its interceptors are replaced as they are made."""
        make = registry._kinds["ctk.scripted"]  # it has no way to register a kind again
        registry._kinds["ctk.scripted"] = lambda *args: self._replaced(make(*args))
        super().setup_declared(scenario, document, registry)

    def _replaced(self, one: Any) -> Any:
        if isinstance(one, RecordingInterceptor):
            one.inner = self._replaced(one.inner)  # what it was asked is asserted as well
            return one
        if not gives(one):
            return one
        self.ours.append(Haltline(one))
        return self.ours[-1]


def run(name: str, _: object) -> None:
    host = Host(beside=name in BESIDE)
    result = asyncio.run(run_vector(host, VECTORS[name]))
    assert result.status == "pass", f"{result.title}: {result.status} {result.detail} {result.failures}"
    assert any(one.asked for one in host.ours), f"{result.title}: expected that haltline is asked"
    assert [wrong for one in host.ours for wrong in one.wrong] == [], result.title


for one in NAMES:
    OWN[one] = Case(one, partial(run, one))


@own("each vector of the kit is run, or listed with a reason")
def _() -> None:
    assert sorted([*IN_PLACE, *BESIDE, *NOT_RUN]) == sorted(VECTORS)


@own("a call that waits for a person longer than the host waits for an interceptor is not made")
def _() -> None:
    guard = ScriptedGuard(asks, approval_wait_s=60)
    emitter = InterceptionEmitter(timeout=0.2).register(HaltlineInterceptor(guard), name="haltline")
    call = AgentContextBuilder(agent_id="a", framework="tests", session_id="s1").pre_tool_call(
        call_id="c0", name="delete_asset", args={"asset_id": "fact_sales"}
    )
    reason = None
    try:
        asyncio.run(emitter.emit(call))
    except InterceptionBlocked as blocked:
        reason = blocked.result.verdict.reason
    assert reason == "host_error:interceptor_timeout"
    assert Outcome.OK not in outcomes(guard)


@own("a single changed argument is a transform of its own path, others are one of all arguments")
def _() -> None:
    same = {"rows": 7}
    for proposed, args, path in (
        ({"a": 1, "b": same}, {"a": True, "b": same}, "$target.a"),
        ({"a": 1, "b": 2}, {"a": True, "b": 3}, "$target"),
        ({"a": 1}, {"a": 1, "b": 2}, "$target"),
        ({"a": 1, "b": 2}, {"a": 3}, "$target"),
        ({"a": 1, "b": 2}, {"a": 1}, "$target"),
        ({"a.b": 1}, {"a.b": 2}, "$target"),
    ):
        found = transform_of(proposed, args)
        assert found.path == path, (proposed, args)
        assert found.value == (args if path == "$target" else args[path.partition(".")[2]])
