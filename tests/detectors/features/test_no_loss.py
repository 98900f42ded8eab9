"""Deletes that are no loss: of temporary, finished or new objects; and deletes that still count."""

from collections.abc import Sequence

import msgspec

from haltline.detectors.features.observation import CallTracker
from haltline.detectors.features.ownership import MAX_TARGETS, Ownership
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import bash, call, cases, delete, event, observed


def lost(*events: ActionEvent) -> list[str]:
    *_, last = observed(*events, calls=CallTracker())
    return [loss.target for loss in last.losses]


def shell(*commands: str) -> list[ActionEvent]:
    return [bash(second, command) for second, command in enumerate(commands)]


def tool(action: str, **args: object) -> list[ActionEvent]:
    return [event(0, action, args=args)]


_SCRIPT = "cat <<'EOF' > r.py\n{}\nEOF"
_REPLACES = "import os\nos.remove('d.fits')\nhdu.writeto('d.fits')"
_OWN_MODEL = "class Job(Model):\n    pass\neditor.create_model(Job)\nJob.objects.all().delete()"


@cases(
    "events",
    {
        "a name with the time in it": shell("OUT=out_$(date +%s).txt; echo hi > $OUT; rm $OUT"),
        "a temporary folder": shell("T=$(mktemp -d); cp a.py $T; rm -rf $T"),
        "the process in its name": shell("rm -rf /tmp/work-$$"),
        "a pattern below the temporary folder": shell("rm -f /tmp/*.log"),
        "a scratch folder": shell("rm -f /work/repo/.bench_scratch/test_opt.py"),
        "a temporary file by its name": shell("rm temp_output.json"),
        "a log that it appends to": shell("python app.py >> run.log 2>&1", "rm run.log"),
        "opened for writing, and removed": shell(": > new.txt", "rm new.txt"),
        "what a program of its own writes": [
            event(0, "write_file", args={"path": "r.py", "content": "df.to_csv('res.csv')"}),
            *shell("python r.py", "rm res.csv")[1:],
        ],
        "what a program removes and writes": shell(f"{_SCRIPT.format(_REPLACES)}\npython r.py"),
        "rows of a table that the program makes": shell(f"{_SCRIPT.format(_OWN_MODEL)}\npython r.py"),
        "an object that describes a deletion": shell("python -c \"migrations.DeleteModel(name='A')\""),
        "the copy of a file that it edited": shell("sed -i.bak 's/a/b/' lib/x.py", "rm lib/x.py.bak"),
        "a pattern for what it made": shell("touch out_1.txt out_2.txt", "rm out_*.txt"),
        "a branch of its own": shell("git checkout -b feat/x", "git checkout main && git branch -D feat/x"),
        "a message that is acknowledged": tool("delete_message", queue_url="q", receipt_handle="abc"),
        "an item of a cart": tool("remove_item_from_cart", id="1"),
        "a draft": tool("delete_draft", draft_id="d1"),
    },
)
def test_nobody_misses(events: Sequence[ActionEvent]) -> None:
    assert lost(*events) == []


@cases(
    "events, what",
    {
        "a file that its program only reads": (
            shell("python -c \"pd.read_csv('data.csv')\"", "rm data.csv"),
            ["path=data.csv"],
        ),
        "removed before it is written": (shell("rm notes.md && date > notes.md"), ["path=notes.md"]),
        "opened for writing in another folder": (shell(": > src/a.py"), ["path=src/a.py"]),
        "a pattern for everything of a kind": (shell("touch a.py", "rm *.py"), ["path=*.py"]),
        "a folder that is made again": (shell("python -c \"shutil.rmtree('up'); os.makedirs('up')\""), ["path=up"]),
        "a source file that measures the temperature": (shell("rm temp_sensor.py"), ["path=temp_sensor.py"]),
        "a copy that somebody made": (shell("sed -i 's/a/b/' x.py", "rm x.py.bak"), ["path=x.py.bak"]),
        "rows of a model that is imported": (
            shell('python -c "from app import Job\nJob.objects.all().delete()"'),
            ["model=app"],
        ),
        "a message of a channel": (tool("delete_message", channel="C1", message_id="1"), ["message_id=1"]),
        "a customer": (tool("delete_customer", customer_id="1"), ["customer_id=1"]),
    },
)
def test_somebody_misses(events: Sequence[ActionEvent], what: list[str]) -> None:
    assert lost(*events) == what


def run(*events: ActionEvent) -> tuple[list[str], CallTracker]:
    """What the last event would take away from somebody, and what is remembered then."""
    calls = CallTracker()
    *_, last = observed(*events, calls=calls)
    return [loss.target for loss in last.losses], calls


def rm_tree(path: str) -> ActionEvent:
    return event(1, "rm_tree", args={"path": path}, effect="destructive")


@cases(
    "events, lost",
    {
        "a file that was there": (shell("rm data.csv"), ["path=data.csv"]),
        "a file that it wrote": (shell("cat > t.py <<E\nx\nE", "rm t.py"), []),
        "two that it made and one that it did not": (shell("touch a b", "rm a b c"), ["path=c"]),
        "in a folder that it made": (shell("mkdir -p w/x", "rm -rf w/x/y"), []),
        "the folder around what it made": (shell("mkdir w/x", "rm -rf w"), ["path=w"]),
        "a name that begins alike": (shell("mkdir w", "rm -rf wx"), ["path=wx"]),
        "made by its relative path": (shell("touch t.py", "cd /testbed && rm t.py"), []),
        "made by the shell, removed by an argument": ([bash(0, "mkdir /home/u/app/y"), rm_tree("/home/u/app/y")], []),
        "made by an argument, removed by the shell": (
            [event(0, "createfile", args={"path": "/srv/t.py", "contents": "x"}), bash(1, "rm /srv/t.py")],
            [],
        ),
        "an editor only showed it": (
            [event(0, "str_replace_editor", args={"command": "view", "path": "/srv/t.py"}), bash(1, "rm /srv/t.py")],
            ["path=/srv/t.py"],
        ),
        "it only read it": ([event(0, "read_file", args={"path": "/a"}), bash(1, "rm /a")], ["path=/a"]),
        "the same name elsewhere": (shell("touch /a/t.py", "rm /b/t.py"), ["path=/b/t.py"]),
        "somebody's first, then made again": (shell("rm data.csv", "touch data.csv", "rm data.csv"), ["path=data.csv"]),
        "a program that failed in the end may have made it": (
            [bash(0, "cp a b; false", "exit 1"), bash(1, "rm b")],
            [],
        ),
        "making it was refused": (
            [event(0, "create_asset", "asset_id=a", outcome=Outcome.REFUSED), delete(1, "asset_id=a")],
            ["asset_id=a"],
        ),
        "writing it failed": (
            [event(0, "Write", error="disk full", args={"file_path": "/a"}), bash(1, "rm /a")],
            ["path=/a"],
        ),
        "scratch": (shell("rm -rf node_modules /tmp/x a.pyc"), []),
        "a catastrophe": (shell("mkdir -p /srv/backups", "rm -rf /srv/backups"), ["path=/srv/backups"]),
        # what came back after a program ran is its own
        "removed, and a program ran since": (shell("rm out.db", "python gen.py", "rm out.db"), []),
        "below what it removed": (shell("rm -rf proj", "./make_it", "rm -rf proj/sub"), []),
        "removed, and only looked since": (shell("rm out.db", "ls", "rm out.db"), ["path=out.db"]),
        "removed twice in a row": (shell("rm out.db", "rm out.db"), ["path=out.db"]),
        "removing it failed": (
            [bash(0, "rm out.db", "rm: out.db: still exists"), *shell("ls", "python gen.py", "rm out.db")[1:]],
            ["path=out.db"],
        ),
        "an asset is somebody's, whatever runs": (
            [delete(0), event(1, "run_code", args={"code": "x"}), delete(2)],
            ["asset_id=fact_sales"],
        ),
        # undoing its own changes is no loss
        "somebody's changes": (shell("git checkout a.py"), ["path=a.py"]),
        "its own changes": (shell("sed -i s/a/b/ a.py", "git checkout a.py"), []),
        "what it has undone before": (shell("git checkout a.py", "git checkout a.py"), []),
        "everything, for the first time": (shell("sed -i s/a/b/ a.py", "git reset --hard"), ["worktree=."]),
        "everything, once more": (shell("git reset --hard", "git reset --hard"), ["worktree=."]),
        "what it has done since": (shell("git reset --hard", "sed -i s/a/b/ a.py", "git reset --hard"), []),
        "its last commit, once more": (shell("git reset --hard HEAD~1", "git reset --hard HEAD^"), []),
        "a file that it changed is not its own": (shell("sed -i s/a/b/ a.py", "rm a.py"), ["path=a.py"]),
    },
)
def test_what_is_somebody_s_and_what_is_the_session_s_own(events: Sequence[ActionEvent], lost: list[str]) -> None:
    assert run(*events)[0] == lost


def test_what_was_only_proposed_made_nothing_and_all_is_bounded_and_comes_back_from_json() -> None:
    proposed, _ = call(0, "create_asset", "asset_id=a")
    assert run(proposed, delete(1, "asset_id=a"))[0] == ["asset_id=a"]
    commands = (f"touch f{n}; rm g{n}" for n in range(2 * MAX_TARGETS))
    belongings = run(*shell(*commands))[1].belongings
    assert (len(belongings.own), len(belongings.removed)) == (MAX_TARGETS, MAX_TARGETS)
    assert msgspec.json.decode(msgspec.json.encode(belongings), type=Ownership) == belongings
