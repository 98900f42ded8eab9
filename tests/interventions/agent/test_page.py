import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from haltline.interventions.agent import ClientRules, Level
from haltline.interventions.agent.testing import ScriptedGuard, killed
from haltline.interventions.author_rules.objection import BUDGET_WARNING, TEXTS
from haltline.interventions.control.freeze import record
from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.session_control import Freeze
from haltline.schemas.author_rules import several
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import ScopeKind
from tests.builders import T0_MS, cases
from tests.docs.pages import DOCS, between, fences_of, rows
from tests.interventions.agent.attempts import refusal
from tests.programs import printed

PAGE = DOCS / "agent.md"


def without_its_case(text: str) -> str:
    """Without the time, and what is quoted."""
    return re.sub(r'"[^"]*"|[\d-]+ [\d:]+ UTC', "...", text)


def scenario() -> dict[str, str]:
    table = rows(between(PAGE, "refusals"))
    return {code: without_its_case(text).removesuffix(" ...") for codes, _, text in table for code in re.findall(r"`(\w+)`", codes)}


def test_the_authors_own_rules() -> None:
    (codes,) = re.findall(r"<!-- author's -->(.*?)<!-- /author's -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert {*re.findall(r"`([a-z_]+)`[, )]", f"{codes},")} - {"throttle_s"} == TEXTS.keys() - {BUDGET_WARNING}


def held(state: ControlState) -> ScriptedGuard:
    """As an operator's freeze or containment writes it."""
    freeze = Freeze(state.value, by="ada", reason="to look at it", since_ms=T0_MS, decision_id="d1")
    return ScriptedGuard(standing=(record(freeze, SessionRef("scripted", "cleaner", listens=True)),))


@cases(
    "code, guard",
    {
        "nobody to ask": ("no_verdict", lambda: ScriptedGuard(None)),
        "an operator's kill": (
            "session_killed_by_operator",
            lambda: ScriptedGuard(standing=(killed(ScopeKind.SESSION, "scripted"),)),
        ),
        "a kill by a rule": ("session_killed_loop_guard", lambda: ScriptedGuard(Level.KILL)),
        "frozen": ("session_frozen_by_operator", lambda: held(ControlState.FROZEN)),
        "contained": ("session_contained_by_operator", lambda: held(ControlState.CONTAINED)),
    },
)
def test_what_stands_and_what_nobody_says(code: str, guard: Callable[[], ScriptedGuard]) -> None:
    refused = refusal(guard())
    assert refused.code == code
    assert without_its_case(refused.reason).startswith(scenario()[code])


def test_the_file_of_rules_is_one() -> None:
    ((_, result),) = fences_of(between(PAGE, "rules"))
    rules = ClientRules.model_validate(tomllib.loads(result))
    (pay,) = several(rules.argument_constraints["pay"])
    assert pay.properties["amount"].maximum == 500


def test_the_program_with_a_policy_prints_what_the_page_shows(tmp_path: Path) -> None:
    (_, program), (_, shown) = fences_of(between(PAGE, "policy"))
    assert printed(sys.executable, "-c", program, cwd=tmp_path) == shown
