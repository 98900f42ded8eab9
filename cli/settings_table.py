"""Every setting of haltline.toml: the one source of its parser, of `haltline init` and of docs/configuration.md."""

from typing import Final, NamedTuple


class Setting(NamedTuple):
    """One key of one section, and the environment variable that it stands for."""

    section: str
    key: str
    variable: str
    kind: str
    """What a value must be, as settings_file reads it: `text`, `file`, `folder`, `port` ..., or `one of A, B`."""
    help: str
    default: str = ""
    """In words, where it is left out; empty: there is none."""

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
    "opinion": "The model that gives second opinions.",
    "intake": "HTTP for agents in other languages.",
    "doctor": "Where `haltline doctor` looks for processes.",
    "agent": "Guards of `haltline hook`, `watch`, `mcp-proxy` and `intake`.",
}
BESIDE_AGENT: Final = ("kafka", "agent")
"""The sections that a command in an agent's own working directory needs; it gets no other."""

_EFFECT: Final = "one of read, poll, write, network, exec, mutate, destructive, none"


def _agent(key: str, kind: str, text: str, default: str = "") -> Setting:
    return Setting("agent", key, f"HALTLINE_{key.upper()}", kind, text, default)


SETTINGS: Final = (
    Setting(
        "kafka",
        "bootstrap",
        "HALTLINE_BOOTSTRAP",
        "text",
        "Kafka's address, several separated by commas.",
        "the broker of `haltline up` in this folder, else 127.0.0.1:9092",
    ),
    Setting(
        "kafka", "prefix", "HALTLINE_PREFIX", "text", "What the names of haltline's topics begin with.", "haltline."
    ),
    Setting(
        "kafka",
        "client_config",
        "HALTLINE_CLIENT_CONFIG",
        "file",
        "librdkafka's settings for encryption and credentials, one name=value a line.",
    ),
    Setting(
        "operator",
        "name",
        "HALTLINE_OPERATOR",
        "text",
        "Your name: recorded in the audit (`--by`), and the user name of the console's sign-in link.",
    ),
    Setting("workers", "group", "HALTLINE_GROUP", "text", "The workers' consumer group.", "the prefix without its dot"),
    Setting(
        "workers",
        "policy",
        "HALTLINE_POLICY",
        "file",
        "The policy document (YAML) of workers, backtests and labels.",
        "the published policy for a worker, else every default",
    ),
    Setting(
        "workers",
        "rules",
        "HALTLINE_RULES",
        "one of all, enforced, shadow",
        "Which rules a worker runs; with enforced, a worker of its own runs those in shadow.",
        "all; `haltline up`: enforced",
    ),
    Setting("workers", "sealing_key", "HALTLINE_SEALING_KEY", "file", "Private key that signs what agents receive."),
    Setting(
        "audit",
        "table",
        "HALTLINE_AUDIT_TABLE",
        "folder or URI",
        "The audit table.",
        "the table of `haltline up` in this folder, else .haltline/audit; console: none",
    ),
    Setting(
        "audit",
        "storage_options",
        "HALTLINE_AUDIT_STORAGE_OPTIONS",
        "table of texts",
        'Settings of the store that it is in, such as {AWS_REGION = "eu-north-1"}. Secrets stay in the environment.',
    ),
    Setting("audit", "signing_key", "HALTLINE_AUDIT_KEY", "file", "Private key that signs the hash chains."),
    Setting("audit", "public_key", "HALTLINE_AUDIT_PUBLIC_KEY", "file", "Public key that checks the signatures."),
    Setting("console", "host", "HALTLINE_CONSOLE_LISTEN_HOST", "text", "Address to listen at.", "127.0.0.1"),
    Setting("console", "port", "HALTLINE_CONSOLE_LISTEN_PORT", "port", "Port to listen at; 0: any.", "8460"),
    Setting(
        "console",
        "keys",
        "HALTLINE_CONSOLE_KEYS",
        "file",
        "YAML list of name, role and sha256 of each person who may sign in.",
        "one key for an admin, made at the start",
    ),
    Setting("console", "oidc", "HALTLINE_CONSOLE_OIDC", "file", "YAML description of an OpenID provider."),
    Setting(
        "console",
        "database",
        "HALTLINE_CONSOLE_DATABASE",
        "database URL",
        "The read model, SQLite or PostgreSQL. A password stays in the environment or in ~/.pgpass.",
        "sqlite:///haltline-console.db; `haltline up`: in its data folder",
    ),
    Setting(
        "console", "rules", "HALTLINE_CONSOLE_RULES", "file", "Rules, approvals and budgets of Agent Sentinel's SDK."
    ),
    Setting(
        "console",
        "link_key",
        "HALTLINE_CONSOLE_LINK_KEY",
        "file",
        "The notifier's `link_key_file`: checks links of notifications to approvals.",
    ),
    Setting("notify", "config", "HALTLINE_NOTIFY_CONFIG", "file", "The document of channels and routes, YAML or TOML."),
    Setting("opinion", "url", "HALTLINE_OPINION_URL", "text", "Address of an OpenAI-compatible API."),
    Setting("opinion", "model", "HALTLINE_OPINION_MODEL", "text", "The model's name there."),
    Setting("opinion", "api_key_file", "HALTLINE_OPINION_API_KEY_FILE", "file", "Its text is the API's key."),
    Setting("intake", "host", "HALTLINE_INTAKE_LISTEN_HOST", "text", "Address to listen at.", "127.0.0.1"),
    Setting("intake", "port", "HALTLINE_INTAKE_LISTEN_PORT", "port", "Port to listen at; 0: any.", "8765"),
    Setting(
        "intake",
        "otlp_grpc_port",
        "HALTLINE_INTAKE_OTLP_GRPC_PORT",
        "port",
        "Port that takes traces over gRPC, such as 4317; 0: any; unset: over HTTP only.",
    ),
    Setting(
        "intake", "token_file", "HALTLINE_INTAKE_TOKEN_FILE", "file", "Its text is the bearer token of every request."
    ),
    Setting(
        "intake", "keys", "HALTLINE_INTAKE_KEYS", "file", "TOML: further keys, each with a scope and limits of its own."
    ),
    Setting(
        "intake",
        "tls_config",
        "HALTLINE_INTAKE_TLS_CONFIG",
        "file",
        "Serve with TLS: Kafka's names of settings, one name=value a line.",
        "without TLS",
    ),
    Setting(
        "doctor", "worker", "HALTLINE_DOCTOR_WORKER", "text", "URL of a worker's /healthz.", "http://127.0.0.1:9464"
    ),
    Setting("doctor", "sink", "HALTLINE_DOCTOR_SINK", "text", "URL of an audit sink's.", "http://127.0.0.1:9465"),
    Setting(
        "doctor", "canary", "HALTLINE_DOCTOR_CANARY", "text", "URL of the canary's /metrics.", "http://127.0.0.1:9466"
    ),
    Setting("doctor", "intake", "HALTLINE_DOCTOR_INTAKE", "text", "URL of an intake.", "http://127.0.0.1:8765"),
    Setting("doctor", "console", "HALTLINE_DOCTOR_CONSOLE", "text", "URL of the console.", "http://127.0.0.1:8460"),
    _agent("agent_id", "text", "The agent's id.", "unknown"),
    _agent("mode", "one of async, blocking, local", "What a call waits for.", "async; intake and mcp-proxy: blocking"),
    _agent("verify_key", "files", "The workers' public keys; also of the canary and the intake."),
    Setting("agent", "rules", "HALTLINE_AGENT_RULES", "files", "The agent's author's own rules, TOML or JSON."),
    Setting(
        "agent",
        "policy",
        "HALTLINE_AGENT_POLICY",
        "file",
        "The policy document of guards in mode local.",
        "every default",
    ),
    Setting(
        "agent",
        "hook_approval",
        "HALTLINE_HOOK_APPROVAL",
        "one of deny, ask",
        "`ask`: Claude Code puts what waits for an approval to the user of the terminal.",
        "deny",
    ),
    Setting(
        "agent", "hook_idle_s", "HALTLINE_HOOK_IDLE_S", "number", "A hook's companion ends after so long idle.", "1800"
    ),
    _agent(
        "ask_from", _EFFECT, "In mode async, calls of this effect or a worse one wait for their verdict.", "destructive"
    ),
    _agent(
        "fail_closed_from",
        _EFFECT,
        "Without a verdict, calls of this effect or a worse one are refused.",
        "destructive",
    ),
    _agent("budget_s", "number", "How long a verdict is waited for.", "1"),
    _agent("first_budget_s", "number", "The same for the first verdict.", "5"),
    _agent("start_budget_s", "number", "How long the first calls wait until it is known what is killed.", "5"),
    _agent("close_budget_s", "number", "How long the end waits until the last events have arrived.", "5"),
    _agent("approval_wait_s", "number", "How long a call waits for a person.", "900"),
    _agent("max_decision_age_s", "number", "An older decision counts as none, unless it is a kill.", "30"),
    _agent("throttle_s", "number", "How long the limits of a THROTTLE hold.", "300"),
    _agent("rollback_budget_s", "number", "How long a call waits until files are put back.", "60"),
    _agent("max_args_bytes", "integer", "Longer arguments of calls that read or write are cut.", "8192"),
    _agent("max_run_bytes", "integer", "Longer arguments of every other call are refused.", "262144"),
    _agent("max_output_chars", "integer", "How much of an output is published.", "512"),
    _agent("fetch_wait_ms", "integer", "How long the broker may hold a fetch.", "500; on an embedded broker 10"),
    _agent("redact_pii", "true or false", "Also take out personal data; needs HALTLINE_DIGEST_KEY.", "false"),
    _agent("spool_dir", "folder", "Where records wait on disk while the broker is away."),
    _agent("spool_max_mb", "integer", "The most that waits there.", "64"),
)
