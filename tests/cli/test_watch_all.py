import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from haltline.schemas.events import Kind
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.streams.scan.transcripts import stuck
from tests.waiting import wait_until


def test_what_goes_wrong_is_printed_shown_on_the_desktop_and_published(
    tmp_path: Path, embedded: EmbeddedBroker
) -> None:
    history = tmp_path / ".claude" / "projects" / "-srv-shop" / "a.jsonl"
    history.parent.mkdir(parents=True)
    notices, program = tmp_path / "notices", tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\necho "$@" >> {notices}\n')
    program.chmod(0o755)
    environ = os.environ | {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    options = ["--notify", "desktop", "--bootstrap", embedded.bootstrap]
    command = [sys.executable, "-m", "haltline.cli", "watch", "--all", *options]
    with (
        StandIn(embedded.bootstrap) as worker,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch,
    ):
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert "histories" in watch.stderr.readline()
        later = datetime.now(UTC) + timedelta(seconds=1)
        lines = [line | {"timestamp": later.isoformat()} for line in stuck().lines]
        history.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        first = watch.stdout.readline()
        assert " claude-code -srv-shop 11111111-2222-3333-4444-555555555555 NUDGE " in first
        assert "Hint: " in first
        wait_until(lambda: notices.exists() and "claude-code -srv-shop" in notices.read_text(), "a notice is shown")
        wait_until(lambda: worker.of(Kind.PROPOSED), "what the agent does is published")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(30) == 0
