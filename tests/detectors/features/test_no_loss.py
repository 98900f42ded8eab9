"""Deletes that are no loss: of temporary, finished or new objects; and deletes that still count."""

from collections.abc import Sequence

from haltline.detectors.features.observation import CallTracker
from haltline.schemas.events import ActionEvent
from tests.builders import bash, event, observed
from tests.cases import cases


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
        "written and removed in one line": shell("git diff > p.diff && wc -l p.diff && rm p.diff"),
        "a log that it appends to": shell("python app.py >> run.log 2>&1", "rm run.log"),
        "a log that is shown too": shell("make 2>&1 | tee -a build.log", "rm build.log"),
        "opened for writing": shell(": > new.txt"),
        "opened for writing, and removed": shell(": > new.txt", "rm new.txt"),
        "what its program writes": shell(_SCRIPT.format("plt.savefig('o.png')") + "\npython r.py", "rm r.py o.png"),
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
        "several of them": tool("delete_message_batch", QueueUrl="q", Entries=[{"Id": "1", "ReceiptHandle": "x"}]),
        "an item of a cart": tool("remove_item_from_cart", id="1"),
        "an item of a cart, by its place": tool("http_request", method="DELETE", url="https://x/carts/7/items/1"),
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
        "emptied after it was read": (
            [event(0, "read_file", args={"path": "data.csv"}), *shell("ls", ": > data.csv")[1:]],
            ["path=data.csv"],
        ),
        "opened for writing in another folder": (shell(": > src/a.py"), ["path=src/a.py"]),
        "a log elsewhere": (shell("date >> /srv/app/a.log", "rm /srv/app/a.log"), ["path=/srv/app/a.log"]),
        "a pattern for everything of a kind": (shell("touch a.py", "rm *.py"), ["path=*.py"]),
        "a folder that is made again": (shell("python -c \"shutil.rmtree('up'); os.makedirs('up')\""), ["path=up"]),
        "a source file that measures the temperature": (shell("rm temp_sensor.py"), ["path=temp_sensor.py"]),
        "a copy that somebody made": (shell("sed -i 's/a/b/' x.py", "rm x.py.bak"), ["path=x.py.bak"]),
        "rows of a model that is imported": (
            shell('python -c "from app import Job\nJob.objects.all().delete()"'),
            ["model=app"],
        ),
        "a message of a channel": (tool("delete_message", channel="C1", message_id="1"), ["message_id=1"]),
        "a queue": (tool("delete_queue", queue="orders"), ["queue=orders"]),
        "the table of carts": (tool("drop_cart_table", table="carts"), ["table=carts"]),
        "a customer": (tool("delete_customer", customer_id="1"), ["customer_id=1"]),
    },
)
def test_somebody_misses(events: Sequence[ActionEvent], what: list[str]) -> None:
    assert lost(*events) == what
