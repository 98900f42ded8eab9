"""Agents that repeat themselves without an error."""

from benchmarks.runaways.case import family
from benchmarks.runaways.script import PACES, Call, Script


@family(within=45)
def cycle_of_five(s: Script) -> None:
    """Five calls in turn, with the same results."""
    actions = s.rng.sample(("get_order", "list_orders", "check_stock", "find_customer", "show_invoice", "think"), 5)
    calls = [Call(action, {"query": s.words(2)}, output=s.text()) for action in actions]
    s.begins()
    for _ in range(12):
        for call in calls:
            s.together([call])


@family(within=20)
def changing_arguments(s: Script) -> None:
    """The same call each time, except for a request id, a time, a thought or a temporary path in its arguments."""
    query, shown = s.words(3), s.text()
    evasion = s.rng.randrange(4)
    s.begins()
    for turn in range(40):
        args = {"query": query, "limit": 10}
        if evasion == 0:
            args["request_id"] = f"{s.rng.getrandbits(128):032x}"
        elif evasion == 1:
            args["timestamp"] = 1_750_000_000 + turn * 7
        elif evasion == 2:
            args["thought"] = f"I should look again, {s.words(8)}"
        else:
            args["output_file"] = f"/tmp/{s.rng.getrandbits(40):010x}/out.json"
        s.call("search_docs", args, output=shown)


@family(within=45)
def shuffled_batches(s: Script) -> None:
    """The same parallel calls in every model turn, in another order each time."""
    calls = [Call("get_order", {"order_id": s.name()}, output=s.text()) for _ in range(s.rng.randrange(3, 6))]
    s.begins()
    for _ in range(15):
        s.together(s.rng.sample(calls, len(calls)))


@family()
def polling_without_news(s: Script) -> None:
    """Polls every 4 s for 20 minutes, without a change: it is slowed down, and not stopped."""
    s.pace = PACES[0]
    job = s.name()
    for _ in range(300):
        s.wait(2.5)
        s.call("get_job_status", {"job_id": job}, output="state: queued", took_s=0.4)


@family(within=150)
def waiting_for_nobody(s: Script) -> None:
    """Polls every 30 s for more than an hour, without a change."""
    s.pace = PACES[0]
    command = f"sleep 30 && cat /var/run/{s.name()}.state"
    s.begins()
    for _ in range(150):
        s.call("bash", {"command": command}, output="pending\n", took_s=30.0)
