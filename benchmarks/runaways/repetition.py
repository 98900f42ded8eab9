"""Agents that repeat themselves without an error."""

from benchmarks.runaways.case import family
from benchmarks.runaways.script import PACES, Call, Script


@family(within=20)
def identical_reads(s: Script) -> None:
    """Reads the same thing repeatedly; it does not change."""
    order = f"order-{s.rng.randrange(10_000)}"
    shown = s.text()
    s.begins()
    for _ in range(40):
        s.call("get_order", {"order_id": order}, output=shown)


@family(within=12)
def identical_writes(s: Script) -> None:
    """Sends the same message repeatedly."""
    args = {"to": f"{s.word()}@example.org", "subject": s.words(4), "body": s.words(20)}
    s.begins()
    for _ in range(40):
        s.call("send_email", args, output="sent")


@family(within=15)
def identical_commands(s: Script) -> None:
    """Runs the same command repeatedly without changing anything."""
    command, shown = f"python -m {s.word()}.check --all", "3 of 5 checks passed"
    s.begins()
    for _ in range(40):
        s.call("bash", {"command": command}, output=shown)


def _cycle(s: Script, length: int, *, rounds: int, noise: float = 0.0) -> None:
    actions = s.rng.sample(
        ("get_order", "list_orders", "check_stock", "find_customer", "show_invoice", "think"), length
    )
    calls = [Call(action, {"query": s.words(2)}, output=s.text()) for action in actions]
    s.begins()
    for _ in range(rounds):
        for call in calls:
            s.together([call])
            if s.rng.random() < noise:
                s.call(s.rng.choice(("think", "search_docs")), {"query": s.words(3)})


@family(within=24)
def cycle_of_two(s: Script) -> None:
    """Two calls in turn, with the same results."""
    _cycle(s, 2, rounds=20)


@family(within=30)
def cycle_of_three(s: Script) -> None:
    """Three calls in turn, with the same results."""
    _cycle(s, 3, rounds=15)


@family(within=36)
def cycle_of_four(s: Script) -> None:
    """Four calls in turn, with the same results."""
    _cycle(s, 4, rounds=12)


@family(within=45)
def cycle_of_five(s: Script) -> None:
    """Five calls in turn, with the same results."""
    _cycle(s, 5, rounds=12)


@family(within=60)
def noisy_cycle(s: Script) -> None:
    """Two to four calls in turn, with other calls in between."""
    _cycle(s, s.rng.randrange(2, 5), rounds=20, noise=0.15)


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


@family(within=40)
def evasive_cycle(s: Script) -> None:
    """Two to four calls in turn, each with a new request id and another thought every time."""
    actions = s.rng.sample(("get_order", "list_orders", "check_stock", "find_customer"), s.rng.randrange(2, 5))
    calls = [(action, s.words(2), s.text()) for action in actions]
    s.begins()
    for _ in range(20):
        for action, query, shown in calls:
            evasion = {"request_id": f"{s.rng.getrandbits(128):032x}", "thought": s.words(10)}
            s.call(action, {"query": query} | evasion, output=shown)


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


@family(within=36)
def fruitless_search(s: Script) -> None:
    """Searches for something that does not exist, in other words each time."""
    nothing = s.rng.choice(("No matches found", "", "[]", "0 results"))
    s.begins()
    for _ in range(50):
        s.call("search_code", {"query": s.words(3)}, output=nothing)
