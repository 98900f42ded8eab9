from haltline.detectors.commands.rows import examples_of, rows_of
from haltline.detectors.session.own_release import OwnRelease
from haltline.schemas.events import Outcome
from tests.builders import bash, event, fires_at

FOUND = ("own_release", "critical")


RELEASES = [
    "bash -c 'haltline approve s1'", "rm ~/.claude/settings.json", "echo '{}' > .claude/settings.json",
    "rm /run/user/1000/haltline/*.killed", "echo '{}' > .codex/hooks.json", "echo --help > .claude/settings.json",
    "sed -i s/haltline// .gemini/settings.json", "rm .clinerules/hooks/PreToolUse",
    "mv ~/.config/opencode/plugins/haltline.js /tmp", "unset HALTLINE_BOOTSTRAP", "echo é; unset HALTLINE_BOOTSTRAP",
]  # fmt: skip
LOOKS = [
    "haltline status", "pgrep -af haltline", "grep -rn 'haltline reset' README.md", "echo 'run haltline reset'",
    "cat .claude/settings.json", "cat .codex/hooks.json", "cd haltline && pytest -q",
]  # fmt: skip


def test_a_row_applies_to_its_first_example_and_not_to_its_second() -> None:
    for _, is_found, command in examples_of("supervision"):
        assert (command, fires_at(OwnRelease(), [bash(0, command)]) == [(0, *FOUND)]) == (command, is_found)
    assert [row for row, is_found, _ in examples_of("supervision") if is_found] == rows_of("supervision")


def test_what_lets_itself_off_or_edits_the_hook_is_found_and_looking_at_it_is_quiet() -> None:
    for command in RELEASES:
        assert fires_at(OwnRelease(), [bash(0, command)]) == [(0, *FOUND)]
    for command in LOOKS:
        assert fires_at(OwnRelease(), [bash(0, command)]) == []
    path = "/home/me/.claude/settings.json"
    assert fires_at(OwnRelease(), [event(0, "Edit", args={"file_path": path})]) == [(0, *FOUND)]
    assert fires_at(OwnRelease(), [event(0, "Read", args={"file_path": path})]) == []
    assert fires_at(OwnRelease(), [bash(0, "haltline reset s1", outcome=Outcome.REFUSED)]) == []
