from typing import Any

from haltline.detectors.cross_session.agent_baseline import ACTIONS, STEP_S, AgentBaseline
from haltline.schemas.signals import Signal, SignalKind
from tests.builders import cases
from tests.detectors.cross_session.signals import found, reported, signal

USUAL = {"tool:bash": 20.0, "tool:edit": 12.0}


def profile(number: int, session: str = "", step_s: float = 10.0, **mix: Any) -> Signal:
    amounts = {ACTIONS: 32.0, STEP_S: step_s, **{name.replace("_", ":", 1): n for name, n in (mix or {}).items()}}
    if not mix:
        amounts |= USUAL
    return signal(number * 320, SignalKind.PROFILE, session or f"s{number % 4}", amounts=amounts)


PAST = [profile(n, step_s=9 + n % 3) for n in range(12)]


@cases(
    "last, codes",
    {
        "as usual": (profile(12), []),
        "twice as fast": (profile(12, step_s=4), []),
        "slower": (profile(12, step_s=100), []),
        "ten times as fast": (profile(12, step_s=1), ["agent_rate_drift medium"]),
        "goes to the network, as none did before": (
            profile(12, tool_bash=20, tool_edit=12, effect_network=10),
            ["agent_capability_drift medium"],
        ),
        "goes there now and then": (profile(12, tool_bash=20, tool_edit=12, effect_network=3), []),
        "only tools that none used before": (profile(12, tool_mail=32), ["agent_mix_drift medium"]),
        "one of the usual tools only": (profile(12, tool_bash=32), []),
        "faster, with other tools, and it destroys": (
            profile(12, step_s=0.5, tool_mail=32, effect_destructive=32),
            ["agent_capability_drift critical"],
        ),
    },
)
def test_a_profile_beside_those_of_the_agent(last: Signal, codes: list[str]) -> None:
    assert [told.partition(": ")[2] for told in reported(AgentBaseline(), *PAST, last)] == codes


def test_an_agent_of_which_little_is_known_is_not_judged_and_what_comes_again_is_usual() -> None:
    odd = profile(12, step_s=0.5, tool_mail=32, effect_destructive=32)
    assert reported(AgentBaseline(), *PAST[:11], odd) == []
    assert reported(AgentBaseline(), *[profile(n, "one") for n in range(40)], odd) == []
    new = [profile(12 + n, tool_mail=32) for n in range(40)]
    findings = found(AgentBaseline(), *PAST, *new)
    assert 1 <= len(findings) < 12
