"""The documentation site can be built, without broken links."""

import dataclasses
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from haltline.detectors import PATTERNS
from haltline.detectors.framework.setting_schema import schema_of
from haltline.interventions.agent.guard import ToolOptions
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Task, Usage
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.wide  # builds the whole site; tests of the pages themselves find broken links and blocks


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, some 15 s."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], cwd=ROOT, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _Ids(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # HTMLParser's signature
        self.ids |= {value for name, value in attrs if name == "id" and value}


def test_the_reference_has_what_an_agent_s_author_uses(site: Path) -> None:
    page = _Ids()
    page.feed((site / "python" / "index.html").read_text(encoding="utf-8"))
    package = "haltline.interventions.agent"
    guard = (
        f"guard.Guard.{name}" for name in ("tool", "action", "check", "model_turn", "keep", "subagent", "degraded")
    )
    settings = (f"settings.GuardSettings.{field.name}" for field in dataclasses.fields(GuardSettings))
    options = (f"guard.ToolOptions.{name}" for name in ToolOptions.__annotations__)
    for name in (*guard, *settings, *options, "refused.Refused.code", "enforcement.refusal_cause.Advice.message"):
        assert f"{package}.{name}" in page.ids, name
    for model in (Usage, Task):
        assert {f"{model.__module__}.{model.__name__}.{field}" for field in model.model_fields} <= page.ids


def test_the_page_of_rules_has_every_rule_and_setting(site: Path) -> None:
    text = (site / "rules" / "index.html").read_text(encoding="utf-8")
    page = _Ids()
    page.feed(text)
    assert page.ids >= PATTERNS.keys()
    for pattern in PATTERNS.values():
        section = text.partition(f'<h2 id="{pattern.id}">')[2].partition("<h2 ")[0]
        assert all(f"<strong>{part}:</strong>" in section for part in ("Fires", "Quiet", "Misses")), pattern.id
        assert all(f"<code>{name}</code>" in section for name in schema_of(pattern)["properties"]), pattern.id


def test_every_page_stands_in_the_navigation() -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]
    sections = [next(iter(entry.values())) for entry in nav]
    listed = [page for section in sections for page in ([section] if isinstance(section, str) else section)]
    assert sorted(listed) == sorted(["rules.md", *(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))])
