import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

from haltline.interventions.agent import ClientRules
from haltline.interventions.author_rules.objection import BUDGET_WARNING, TEXTS
from haltline.interventions.control.freeze import record
from haltline.interventions.state import texts
from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.session_control import Freeze
from haltline.schemas.author_rules import several
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
    code, freeze = (
        "session_frozen_by_operator",
        Freeze("frozen", by="ada", reason="why", since_ms=T0_MS, decision_id="d"),
    )
    told = {
        code: texts.of_entry(record(freeze, SessionRef("s", "a"))),
        "session_contained_by_operator": texts.of_entry(
            record(replace(freeze, state="contained"), SessionRef("s", "a"))
        ),
        "session_killed_loop_guard": texts.stopped("why", T0_MS, "this session"),
        "session_frozen_no_progress": texts.held("why", T0_MS, "cycle"),
        "no_verdict": texts.NO_VERDICT,
    }
    assert all(without_its_case(text).startswith(scenario()[code]) for code, text in told.items())


def test_the_file_of_rules_is_one() -> None:
    ((_, result),) = fences_of(between(PAGE, "rules"))
    rules = ClientRules.model_validate(tomllib.loads(result))
    (pay,) = several(rules.argument_constraints["pay"])
    assert pay.properties["amount"].maximum == 500


def test_the_program_with_a_policy_prints_what_the_page_shows(tmp_path: Path) -> None:
    (_, program), (_, shown) = fences_of(between(PAGE, "policy"))
    assert printed(sys.executable, "-c", program, cwd=tmp_path) == shown
