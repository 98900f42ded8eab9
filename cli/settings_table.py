"""Every setting of haltline.toml: the source of its parser, of `haltline init` and of docs/configuration.md."""

from typing import Final, NamedTuple


class Setting(NamedTuple):
    """One key of one section, and the environment variable that it stands for."""

    section: str
    key: str
    variable: str
    kind: str
    """The type of a value, for settings_file: `text`, `file`, `folder`, `port` ..., or `one of A, B`."""
    help: str
    default: str = ""
    """The default, human-readable; empty: there is none."""

    @property
    def name(self) -> str:
        """The section and the key, such as `kafka.bootstrap`."""
        return f"{self.section}.{self.key}"


SECTIONS: Final = {
    "kafka": "The broker, and the topics on it.",
    "operator": "Who uses the command line.",
    "workers": "The processes that decide.",
    "audit": "The table of every record, and the keys that sign and prove it.",
    "console": "Pages and HTTP API.",
    "notify": "Who is notified of incidents.",
    "intake": "HTTP for agents in other languages.",
    "doctor": "Where `haltline doctor` looks for processes.",
    "agent": "Guards of `haltline hook`, `watch`, `mcp-proxy` and `intake`.",
}
REMOVED: Final = {
    "console.rules": "`agent.rules` for rules and budgets, and a policy for approvals",
    "opinion": "label sessions (`haltline label`), or set `mode: warn` for rules in the policy",
}
"""Sections, or keys as section.key, of earlier releases: they have no effect. What to use instead."""
BESIDE_AGENT: Final = ("kafka", "agent")
"""The only sections that a command in an agent's working directory reads."""

_EFFECT: Final = "one of read, poll, write, network, exec, mutate, destructive, none"


def _setting(name: str, kind: str, text: str, default: str = "", *, variable: str = "") -> Setting:
    """A setting; its variable is by default HALTLINE_SECTION_KEY, in some sections HALTLINE_KEY."""
    section, key = name.split(".")
    own = key if section in _WITHOUT_SECTION else f"{section}_{key}"
    return Setting(section, key, variable or f"HALTLINE_{own.upper()}", kind, text, default)


_WITHOUT_SECTION: Final = frozenset({"kafka", "workers", "agent"})

SETTINGS: Final = (
    _setting(
        "kafka.bootstrap",
        "text",
        "Kafka's address, several separated by commas.",
        "the broker of `haltline up` in this folder, else 127.0.0.1:9092",
    ),
    _setting("kafka.prefix", "text", "Prefix of the names of haltline's topics.", "haltline."),
    _setting(
        "kafka.client_config", "file", "librdkafka's settings for encryption and credentials, one name=value a line."
    ),
    _setting(
        "operator.name",
        "text",
        "Your name: recorded in the audit (`--by`), and the user name of the console's sign-in link.",
        variable="HALTLINE_OPERATOR",
    ),
    _setting("workers.group", "text", "The workers' consumer group.", "the prefix without its dot"),
    _setting(
        "workers.policy",
        "file",
        "The policy document (YAML) of workers, backtests and labels.",
        "the published policy for a worker, else every default",
    ),
    _setting(
        "workers.rules",
        "one of all, enforced, shadow",
        "Which rules a worker runs; with enforced, a second worker runs those in shadow.",
        "all; `haltline up`: enforced",
    ),
    _setting("workers.sealing_key", "file", "Private key that signs what agents receive."),
    _setting(
        "audit.table",
        "folder or URI",
        "The audit table.",
        "the table of `haltline up` in this folder, else .haltline/audit; console: none",
    ),
    _setting(
        "audit.storage_options",
        "table of texts",
        'Settings of the object store, such as {AWS_REGION = "eu-north-1"}. Secrets stay in the environment.',
    ),
    _setting(
        "audit.group",
        "text",
        "The audit sinks' consumer group: sinks of one group share one table.",
        "the prefix without its dot, with -audit; `haltline up` on a named broker without audit.table: one of its own",
    ),
    _setting("audit.signing_key", "file", "Private key that signs the hash chains.", variable="HALTLINE_AUDIT_KEY"),
    _setting("audit.public_key", "file", "Public key that checks the signatures."),
    _setting("console.host", "text", "Address to listen on.", "127.0.0.1", variable="HALTLINE_CONSOLE_LISTEN_HOST"),
    _setting("console.port", "port", "Port to listen on; 0: any.", "8460", variable="HALTLINE_CONSOLE_LISTEN_PORT"),
    _setting(
        "console.keys",
        "file",
        "YAML list of name, role and sha256 of each person who may sign in.",
        "one key for an admin, created at the start",
    ),
    _setting("console.oidc", "file", "YAML description of an OpenID provider."),
    _setting(
        "console.database",
        "database URL",
        "The read model, SQLite or PostgreSQL. A password stays in the environment or in ~/.pgpass.",
        "sqlite:///haltline-console.db; `haltline up`: in its data folder",
    ),
    _setting("console.link_key", "file", "The notifier's `link_key_file`: checks links of notifications to approvals."),
    _setting("notify.config", "file", "The document of channels, YAML or TOML."),
    _setting("intake.host", "text", "Address to listen on.", "127.0.0.1", variable="HALTLINE_INTAKE_LISTEN_HOST"),
    _setting("intake.port", "port", "Port to listen on; 0: any.", "8765", variable="HALTLINE_INTAKE_LISTEN_PORT"),
    _setting("intake.token_file", "file", "File with the bearer token that requests must have."),
    _setting("intake.keys", "file", "TOML: further keys, each with a scope and limits of its own."),
    _setting(
        "intake.tls_config", "file", "Serve with TLS: Kafka's names of settings, one name=value a line.", "without TLS"
    ),
    _setting("doctor.worker", "text", "URL of a worker's /healthz.", "http://127.0.0.1:9464"),
    _setting("doctor.sink", "text", "URL of an audit sink's /healthz.", "http://127.0.0.1:9465"),
    _setting("doctor.canary", "text", "URL of the canary's /metrics.", "http://127.0.0.1:9466"),
    _setting("doctor.intake", "text", "URL of an intake.", "http://127.0.0.1:8765"),
    _setting("doctor.console", "text", "URL of the console.", "http://127.0.0.1:8460"),
    _setting("agent.agent_id", "text", "The agent's id.", "unknown"),
    _setting(
        "agent.mode", "one of async, blocking, local", "What a call waits for.", "async; intake and mcp-proxy: blocking"
    ),
    _setting("agent.verify_key", "files", "The workers' public keys, which the canary and the intake use too."),
    _setting("agent.rules", "files", "Rules of the agent's author, TOML or JSON.", variable="HALTLINE_AGENT_RULES"),
    _setting(
        "agent.policy",
        "file",
        "The policy document of guards in mode local.",
        "every default",
        variable="HALTLINE_AGENT_POLICY",
    ),
    _setting(
        "agent.hook_approval",
        "one of deny, ask",
        "`ask`: Claude Code asks the user of the terminal about calls that need an approval; `deny`: they are refused.",
        "deny; ask where it decides without a broker",
    ),
    _setting(
        "agent.hook_idle_s",
        "number",
        "Idle seconds after which the local service ends that a hook has started.",
        "1800",
    ),
    _setting(
        "agent.ask_from",
        _EFFECT,
        "In mode async, calls with this effect or a worse one wait for their verdict.",
        "destructive",
    ),
    _setting(
        "agent.fail_closed_from",
        _EFFECT,
        "Without a verdict, calls with this effect or a worse one are refused.",
        "destructive",
    ),
    _setting("agent.budget_s", "number", "Seconds that a call waits for its verdict.", "1"),
    _setting("agent.first_budget_s", "number", "Seconds that a call waits for the first verdict of a connection.", "5"),
    _setting(
        "agent.start_budget_s", "number", "Seconds that the first calls wait until the `control` topic is read.", "5"
    ),
    _setting(
        "agent.close_budget_s",
        "number",
        "Seconds that the end of a session waits until its last events have arrived.",
        "5",
    ),
    _setting("agent.approval_wait_s", "number", "Seconds that a call waits for an approval.", "900"),
    _setting(
        "agent.max_decision_age_s",
        "number",
        "Seconds after which a decision expires; a kill never expires.",
        "30",
    ),
    _setting("agent.throttle_s", "number", "Seconds that the limits of a THROTTLE hold.", "300"),
    _setting(
        "agent.max_pause_s",
        "number",
        "Seconds by which a poll that a THROTTLE slows is delayed at most; 0: never.",
        "60; none in mode local",
    ),
    _setting("agent.rollback_budget_s", "number", "Seconds that a call waits for a rollback of files.", "60"),
    _setting(
        "agent.snapshots",
        "true or false",
        "Keep uncommitted work before a call that discards it (`haltline undo`).",
        "true; never in the intake",
    ),
    _setting(
        "agent.max_args_bytes", "integer", "Bytes after which arguments of calls that read or write are cut.", "8192"
    ),
    _setting("agent.max_run_bytes", "integer", "Bytes of arguments above which every other call is refused.", "262144"),
    _setting("agent.max_output_chars", "integer", "Characters of an output that are published.", "512"),
    _setting(
        "agent.fetch_wait_ms",
        "integer",
        "Milliseconds that the broker may hold a fetch.",
        "500; on an embedded broker 10",
    ),
    _setting("agent.redact_pii", "true or false", "Also redact personal data; needs HALTLINE_DIGEST_KEY.", "false"),
    _setting("agent.spool_dir", "folder", "Where records wait on disk while the broker is unavailable."),
    _setting("agent.spool_max_mb", "integer", "Maximum size of that folder in megabytes.", "64"),
)
