import re
import sys
import tomllib
from pathlib import Path

from haltline.interventions.agent import ClientRules
from haltline.interventions.author_rules.objection import BUDGET_WARNING, TEXTS
from haltline.interventions.control.freeze import record
from haltline.interventions.state import texts
from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.session_control import Freeze
from haltline.schemas.author_rules import several
from haltline.schemas.control import ControlState
from tests.builders import T0_MS
from tests.docs.pages import DOCS, between, fences_of, rows
from tests.programs import printed

PAGE = DOCS / "agent.md"


def without_its_case(text: str) -> str:
    """Without the time, and what is quoted."""
    return re.sub(r'"[^"]*"|[\d-]+ [\d:]+ UTC', "...", text)


def scenario() -> dict[str, str]:
    table = rows(between(PAGE, "refusals"))
    return {
        code: without_its_case(text).removesuffix(" ...")
        for codes, _, text in table
        for code in re.findall(r"`(\w+)`", codes)
    }


def test_the_authors_own_rules() -> None:
    (codes,) = re.findall(r"<!-- author's -->(.*?)<!-- /author's -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert {*re.findall(r"`([a-z_]+)`[, )]", f"{codes},")} - {"throttle_s"} == TEXTS.keys() - {BUDGET_WARNING}


def test_the_page_has_what_a_model_reads() -> None:
    told = {"no_verdict": texts.NO_VERDICT, "session_killed_loop_guard": texts.stopped("why", T0_MS, "this session")}
    told["session_frozen_no_progress"] = texts.held("why", T0_MS, "cycle")
    for state in (ControlState.FROZEN, ControlState.CONTAINED):
        by_ada = record(Freeze(state.value, "ada", "why", T0_MS, "d"), SessionRef("s", "a"))
        told[by_ada.code] = texts.of_entry(by_ada)
    assert all(without_its_case(text).startswith(scenario()[code]) for code, text in told.items())


def test_the_file_of_rules_is_one() -> None:
    ((_, result),) = fences_of(between(PAGE, "rules"))
    rules = ClientRules.model_validate(tomllib.loads(result))
    (pay,) = several(rules.argument_constraints["pay"])
    assert pay.properties["amount"].maximum == 500


def test_the_program_with_a_policy_prints_what_the_page_shows(tmp_path: Path) -> None:
    (_, program), (_, shown) = fences_of(between(PAGE, "policy"))
    assert printed(sys.executable, "-c", program, cwd=tmp_path) == shown
