"""An agent that prints JSON lines and has children: `python -m ...line_agent FOLDER [endless|short] [claude|plain]`.

One child ignores SIGTERM; another is a daemon that has left the group and whose parent is gone. Each writes its id
to a file in FOLDER.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CHILD = "import os,signal,sys,time; {}; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(600)"
STUBBORN = CHILD.format("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
DAEMON = CHILD.format("os.setsid() if os.fork() == 0 else os._exit(0)")


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def call(number: int, name: str, *, claude: bool, subagent: str | None = None) -> None:
    args = {"command": "ls", "n": number}
    if claude:
        usage = {"input_tokens": 3, "output_tokens": 1}
        content = [{"type": "tool_use", "id": f"t{number}", "name": name, "input": args}]
        message = {"id": f"m{number}", "usage": usage, "content": content}
        say(type="assistant", message=message, parent_tool_use_id=subagent)
        result = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "a.txt"}]
        say(type="user", message={"content": result}, parent_tool_use_id=subagent)
    else:
        say(type="tool_call", id=f"t{number}", name=name, args=args)
        say(type="tool_result", id=f"t{number}", output="a.txt")


def main(folder: str, how: str, form: str) -> None:
    if how == "endless":
        for name, program in (("stubborn", STUBBORN), ("daemon", DAEMON)):
            child = subprocess.Popen([sys.executable, "-c", program, str(Path(folder, name))])
            if name == "daemon":
                child.wait()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(folder, "agent").write_text(str(os.getpid()))
    print("a line that is no JSON", flush=True)
    call(0, "Bash", claude=form == "claude")
    call(1, "Read", claude=form == "claude", subagent="t0")
    number = 2
    while how == "endless":
        call(number, "Bash", claude=form == "claude")
        number += 1
        time.sleep(0.05)
    say(type="result", total_cost_usd=0.25)
    sys.exit(7)


if __name__ == "__main__":
    main(*sys.argv[1:])
