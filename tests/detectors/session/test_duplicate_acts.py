from typing import Any

from haltline.detectors.session.duplicate_acts import DuplicateActs
from haltline.schemas.events import ActionEvent, Kind, Task
from tests.builders import Events, bash, call, cases, each, event, in_turn, severities

DETECTOR = DuplicateActs()


def other(second: float) -> ActionEvent:
    return event(second, "read_file", f"path=/srv/{second:g}", output_head=f"text {second:g}")


def edit(second: float) -> ActionEvent:
    return bash(second, f"sed -i 's/{second:g}/b/' main.py", output_head="")


def ticket(second: float, error: str | None = None, title: str = "printer is on fire") -> ActionEvent:
    """Answers with the id of a new ticket."""
    return event(second, "create_ticket", args={"title": title}, error=error, output_head=f"ticket {second:g}")


def message(second: float, operation: str) -> ActionEvent:
    args = {"action": operation, "target": "chat-1", "message": "hello"}
    return event(second, "message", args=args, output_head=f"message {second:g}")


def click(second: float, element: str) -> ActionEvent:
    """A click on an element, which is in another place of the page each time."""
    args = {"element": element, "ref": f"e{second:g}"}
    return event(second, "browser_click", args=args, output_head=f"page {second:g}")


def order(second: float) -> ActionEvent:
    return click(second, "Place order button")


def checkout(second: float) -> ActionEvent:
    return click(second, "Checkout button")


def spinner(second: float) -> ActionEvent:
    return event(second, "browser_wait_for", args={"time": 5}, output_head=f"page {second:g}")


def server(second: float) -> ActionEvent:
    args = {"command": "npm run dev", "is_background": True}
    return event(second, "run_terminal_cmd", args=args, output_head=f"http://localhost:{3000 + second:g}")


def inbox(second: float) -> tuple[ActionEvent, ...]:
    return call(second, "get_mails", args={"q": "unread"}, output_head="from m.ray, subject parcel " * 4)


def news(second: float) -> tuple[ActionEvent, ...]:
    return call(second, "get_mails", args={"q": "unread"}, output_head=f"mail {second:g} from m.ray, parcel " * 4)


def reply(second: float, **args: Any) -> tuple[ActionEvent, ...]:
    """The same in other words."""
    told = {"to": "m.ray@example.org", "subject": "Re: parcel", "body": f"Dear Ms Ray, {second:g}"} | args
    return call(second, "send_email", args=told, output_head=f"id {second:g}")


def post(second: float) -> tuple[ActionEvent, ...]:
    return call(second, "post_message", args={"channel": "ops", "text": f"at {second:g}"}, output_head=f"{second:g}")


def build(second: float) -> tuple[ActionEvent, ...]:
    return call(second, "build_status", args={"id": 1}, output_head="queued")


def told(goal: str, prompts: int = 1) -> ActionEvent:
    task = Task(goal=goal, prompts=prompts)
    return event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task=task, event_id=f"task {prompts}")


def machine(second: float, name: str = "") -> ActionEvent:
    named = name or f"node-{second:g}"
    return bash(second, f"aws ec2 run-instances --instance-type m8g.large --name {named}", output_head=f"i-{second:g}")


def terminate(second: float) -> ActionEvent:
    return bash(second, f"aws ec2 terminate-instances --instance-ids i-{second:g}", output_head="ok")


def scan(second: float) -> ActionEvent:
    return bash(second, f"ssh node ./scan {second:g}", output_head=f"{second:g} hosts")


def rounds(count: int, *makes: Any) -> list[ActionEvent]:
    """So many rounds of calls, each a second after the other."""
    return in_turn(range(0, count * len(makes), len(makes)), *makes)


ONE = told("Scan the network and publish a map")


@cases(
    "events, found",
    {
        # the same act
        "one ticket again and again, with a new number each time": (each(6, ticket), "mhcc"),
        "the same ticket far apart": (in_turn(range(0, 120, 20), ticket, *[other] * 19), ""),
        "the operation decides: sent": ([message(s, "send") for s in range(5)], "mhc"),
        "the operation decides: read": ([message(s, "read") for s in range(9)], ""),
        "pages that are turned": ([click(s, "Next page button") for s in range(9)], ""),
        "a server in the background, again and again": ([server(s) for s in range(5)], "mhc"),
        "a server that is started again after each change": (rounds(9, server, edit), ""),
        # orders
        "an order that is placed again": (each(4, order), "mcc"),
        "an order that is placed again, on the same way there": (
            [checkout(0), *in_turn(range(1, 12, 3), order, spinner, checkout)],
            "mcc",
        ),
        "as many as the task asks for, and one more": ([told("Buy three gift cards"), *each(4, order)], "mhc"),
        "of which the task asks for all": ([told("Order each item of the list"), *each(5, order)], "mhhh"),
        "an order after the one before was cancelled": (
            in_turn((0, 2), order, lambda s: click(s, "Delete order button")),
            "",
        ),
        # the same in other words
        "answers to one mail, which is read again before each": (rounds(5, inbox, reply), "mcc"),
        "answers while something new comes in": (rounds(5, news, reply), ""),
        "another prompt of the user in between": (
            [told("Answer the mails"), *rounds(2, inbox, reply), told("Write again", 2), *rounds(2, inbox, reply)],
            "",
        ),
        "posts of who waits": (rounds(9, build, post), ""),
        # machines
        "one after the other, with work in between": ([ONE, *rounds(5, machine, scan, scan)], "mcc"),
        "as many as the task names, and one more": ([told("Set up 5 VM"), *rounds(6, machine, scan, scan)], "mhhc"),
        "without a known task": (rounds(5, machine, scan, scan), "mhh"),
        "started in one go": ([ONE, *each(9, machine)], ""),
        "after those before were taken down": ([ONE, *rounds(9, machine, scan, terminate)], ""),
        "for another task": ([ONE, *rounds(2, machine, scan, scan), told("Now that", 2), *rounds(2, machine)], ""),
        "dry runs": ([ONE, *rounds(9, lambda s: machine(s, f"n{s} --dry-run"), scan, scan)], ""),
    },
)
def test_counts(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found
