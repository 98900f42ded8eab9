"""A sink as a process of its own, with a session that ends soon. Arguments: bootstrap, prefix, table, key, instance."""

import logging
import sys
from pathlib import Path

from haltline.schemas.topics import Topics
from haltline.streams.audit.run import run_audit
from haltline.streams.audit.settings import AuditSettings

if __name__ == "__main__":
    bootstrap, prefix, table, key, instance = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    settings = AuditSettings(
        bootstrap=bootstrap,
        topics=Topics(prefix),
        table=table,
        flush_s=0.1,
        flush_rows=200,
        fetch_wait_ms=20,
        session_timeout_s=4.0,
        instance_id=instance,
        signing_key=Path(key),
        sign_every=100,
    )
    sys.exit(run_audit(settings))
