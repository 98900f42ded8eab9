"""Irreversible effects of client methods in programs, by names, owners and arguments: extensible sets.

Misses: clients whose methods are not named after their effect; computed arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.effects.programs import TABLE
from haltline.detectors.commands.effects.tools import by_name, by_setting, only_looks
from haltline.detectors.commands.model import ActEffect, listed
from haltline.detectors.commands.sql_tokens import holds_for_every_row
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_MONEY_OBJECTS = frozenset(listed("""
    refund refunds charge charges payment payments payout payouts transfer transfers paymentintent payment_intents
    paymentintents order orders subscription subscriptions topup checkout invoice invoices purchase
"""))  # fmt: skip
_MAKING = frozenset(("create", "capture", "confirm", "send", "execute", "submit", "pay", "make"))
_PAYS_BY_CODE = re.compile(
    r"stripe|paypal|braintree|adyen|square|plaid|wise|coinbase|binance|alpaca|bank|payment|wallet|exchange",
    re.IGNORECASE,
)
_MAILS = frozenset(listed("""
    sendmail send_message send_email send_raw_email sendmany send_mail send_mass_mail send_bulk_email
    send_templated_email send_bulk_templated_email create_tweet update_status sendMail send_campaign send_sms
"""))  # fmt: skip
_MAILERS = re.compile(r"smtp|mail|ses|sendgrid|twilio|server|client|api|transport|(?:^|\.)s$", re.IGNORECASE)
_MAIL_CLIENTS = re.compile(
    r"sendgrid|(?:^|\.)sg_?(?:mail)?$|(?:^|\.)mail$|resend|postmark|mailgun|mailer|transport", re.IGNORECASE
)
_TOPICS = frozenset(("sns", "pubsub", "publisher"))
_CHATS = frozenset(listed("""
    chat_post_message chat_schedule_message create_tweet send_transaction send_raw_transaction sign_and_send
    send_and_confirm_transaction create_multicast send_multicast send_to_topic send_bulk
"""))  # fmt: skip
_TOKEN_ACTS = frozenset(("transfer", "transfer_from", "approve", "mint", "burn"))
_TOKENS = frozenset(("contract", "token", "erc20", "usdc", "functions"))
_STARTS = frozenset(
    ("invoke", "start_execution", "run_task", "submit_job", "start_build", "trigger_dag", "create_dispatch")
)
_STRONG = frozenset(("delete", "destroy", "drop", "purge", "wipe", "truncate", "erase", "teardown"))
_PUTS = frozenset(("put_object", "upload_blob", "upload_from_string", "put_secret_value", "put_blob"))
_SUBJECT = 2
"""More positional arguments than this make `mail(...)` a message: address, subject and text."""
_CALLS = frozenset(("messages", "calls", "message", "call"))
_SETTERS = ("modify_", "update_", "set_", "put_", "patch_", "scale_")
_SETTERS_OF_CLIENTS = (*(verb[:-1] for verb in _SETTERS), "edit", "create", "insert", "change", "configure", "alter",
                        "copy")  # fmt: skip
_OPENS = frozenset((
    "put_bucket_acl", "put_object_acl", "put_bucket_policy", "put_public_access_block", "set_iam_policy",
    "make_public", "set_container_access_policy", "add_permission", "authorize_security_group_ingress",
    "attach_user_policy", "attach_role_policy", "put_user_policy", "put_role_policy", "chmod", "fchmod",
))  # fmt: skip
_SETS_BY_CODE = frozenset(listed("""
    put_bucket_lifecycle_configuration put_bucket_lifecycle decrease_stream_retention_period disable_key
    schedule_key_deletion stop_instances stop_logging
    change_resource_record_sets update_all delete_by destroy_by
    add_lifecycle_delete_rule clear_lifecyle_rules update_many updateMany bulk_update updateAll recursiveDelete
"""))  # fmt: skip
_OPEN_VALUE = re.compile(
    r"public|allusers|\*|0\.0\.0\.0/0|administratoraccess|fullaccess|0?o?[0-7]?(?:777|666|767|776)|511|anyone|\bfalse\b",
    re.IGNORECASE,
)
_SDKS = frozenset(listed("""
    boto3 botocore aws aioboto3 googleapiclient googleapis cloud azure kubernetes stripe paypal paypalrestsdk
    braintree adyen squareup twilio sendgrid mailgun mailchimp postmark postmarker nodemailer smtplib aiosmtplib resend
    slack discord telegram telebot tweepy twitter atproto praw facebook octokit github pygithub gitlab jira atlassian
    notion airtable pyairtable salesforce hubspot shopify zendesk zenpy intercom docusign xero quickbooks plaid coinbase
    binance ccxt alpaca web3 ethers solana redis ioredis pymongo mongoose mongodb elasticsearch opensearchpy firebase
    firestore supabase pinecone qdrant weaviate chromadb pymilvus kafka kafkajs pika hvac consul cloudflare digitalocean
    pydo linode hcloud heroku netlify vercel datadog pagerduty okta auth0 keycloak ldap3 msgraph exchangelib imaplib
    ftplib pysftp gspread dropbox snowflake databricks bigquery openai proxmoxer libcloud openstack pulumi docker
    opsgenie launchdarkly contentful sanity klaviyo recurly chargebee adal ovh vonage nexmo plivo messagebird
"""))  # fmt: skip
"""Words in module names of service clients."""
_OWNERS = _SDKS | frozenset(listed("""
    client clients api service services svc sdk admin account wallet bank exchange broker ec2 s3 rds iam sns sqs ses kms
    ecs eks dynamodb route53 cloudformation cloudfront lambda_client drive gmail sheets k8s kube mailer transporter
    zone dns registry repo crm droplet cluster gh gl
"""))  # fmt: skip
_SHORT_OWNERS = frozenset(("core", "v1", "apps", "batch"))
"""Variables of Kubernetes' clients. In a path, such as `vllm.core.evictor`, they say nothing."""
_IMPORTS = re.compile(r"(?:\b(?:import|from|require|use|using|gem|Import-Module)\b)[\s('\"]*(@?[\w./:@-]+)")
_MAX_IMPORTS = 64
_OF_FORM = frozenset(listed("begin async command request with response raw namespaced sync input"))
"""Words of a method's name that only describe the form of the call."""
_OF_THE_PROGRAM = frozenset(listed("""
    message messages tag tags cookie cookies item attr attribute event listener handler callback hook timer task future
    thread process cache cached session connection socket job_queue lock lease cursor pool buffer window widget node
    element child row column key local test mock draft
"""))  # fmt: skip
"""Objects inside the program itself."""


_OF_DATA = frozenset(("data", "set", "values"))
_MAX_PROGRAM_CHARS = 16 * 1024
_MODELS = re.compile(r"repo|model|collection|manager|(?:^|\.)[A-Z]\w*$")
_CONDITION = re.compile(r"\.(?:where|filter|find_by|limit)\b")
_EVERY_ROW = re.compile(
    r"\A(?:[\w.]*\.)?(?:(?:from_?|table|objects|query|all|knex|createQueryBuilder|newQuery)\.update(?:\.set)?"
    r"|update\.(?:set|values))(?:\.(?:execute|returning|run|select|then|catch|exec|all))*"
)
"""A chain of calls that builds a statement without a condition."""
_COMPARES = {
    "gt": ">", "gte": ">=", "neq": "<>", "ne": "<>", "not": "is not", "whereNotNull": "is not", "is_not": "is not",
    "where_not_null": "is not", "whereNot": "<>", "exclude": "<>",
}  # fmt: skip
_WHERE = frozenset(listed("where filter andWhere orWhere whereRaw where_raw match and_where find"))
_LOOKUPS = {"gt": ">", "gte": ">=", "isnull": "is not"}
_NOTHING = frozenset(("None", "null", "nil", "False", "is", ""))


def changes_every_row(chain: str) -> bool:
    """Return whether a chain of calls, without those that exclude no row, updates a table without a condition."""
    return "update" in chain and _EVERY_ROW.fullmatch(chain) is not None


def call_excludes_no_row(method: str, plain: list[str], given: Mapping[str, str]) -> bool:
    """Return whether a call that adds a condition to a statement excludes none: `.neq('id', 0)`, `.where('1 = 1')`."""
    compares = _COMPARES.get(method, "")
    if not compares and method not in _WHERE:
        return False
    if given:
        (name, value), *more = given.items()
        column, _, lookup = name.partition("__")
        how = compares or _LOOKUPS.get(lookup, "")
        plain = [] if more or not how else [column, how, value]
    elif compares:
        plain = [plain[0] if plain else "", compares, *(plain[1:] or ("null",))[-1:]]
    if len(plain) not in (1, 3):
        return False
    if len(plain) > 1:
        column, how, value = plain
        number = value.lstrip("-").isdigit()
        if value in _NOTHING:
            how, value = "is not", "null"
        plain = [f"{column} {how} {value if number or value == 'null' else repr(value)}"]
    return plain[0] == "{}" or holds_for_every_row(plain[0])


def reaches_out(program: str) -> bool:
    """Return whether a program imports a client of a remote service."""
    imported = _IMPORTS.findall(program[:_MAX_PROGRAM_CHARS])[:_MAX_IMPORTS]
    return any(not _SDKS.isdisjoint(words(name)) for name in imported)


def _by_words(owner: str, method: str) -> tuple[str, ActEffect] | None:
    """Read the words of a method's name like the name of a tool; a single word is joined with its owner's name."""
    parts = [word for word in words(method) if word not in _OF_FORM]
    if len(parts) == 1:
        parts += words(owner.rpartition(".")[2])
    name = "_".join(parts)
    if parts[0] == "trash":
        return method, ActEffect.DESTROYS
    if len(parts) < 2 or only_looks(name) or not _OF_THE_PROGRAM.isdisjoint(parts[1:]):
        return None
    return (method, ActEffect.DESTROYS) if destroying_verb(name) == parts[0] else by_name(name, alone=False)


@lru_cache(maxsize=1024)
def _rows_of(operation: str) -> tuple[rows.Row, ...]:
    return rows.of_operation(TABLE, "aws", operation) if "-" in operation else ()


def _as_options(given: Mapping[str, str]) -> list[str]:
    """Return arguments as options of the command of the same name; `DeletionProtection=False` also as a switch."""
    argv: list[str] = []
    for name, value in given.items():
        option = "-".join(words(name))
        argv += (f"--{option}", value)
        if value.lower() == "false" and "-" in option:
            argv.append(f"--no-{option}")
    return argv


@dataclass(slots=True)
class Method:
    """One call of a client's method in a program."""

    owner: str
    name: str
    given: Mapping[str, str]
    """The keyword arguments."""
    plain: list[str]
    """The positional arguments."""
    everything: bool
    """The first argument is an empty condition."""
    reaches_out: bool
    """The program imports a client of a remote service."""
    last: str = field(init=False)
    """The last part of the owner's name, in lower case."""
    in_snake: str = field(init=False)
    is_outside: bool = field(init=False)
    """The method is that of a remote service."""

    def __post_init__(self) -> None:
        self.last = self.owner.rpartition(".")[2].lower()
        self.in_snake = "_".join(words(self.name.removesuffix("Command")))
        self.is_outside = self.reaches_out or self.last in _SHORT_OWNERS or not _OWNERS.isdisjoint(words(self.owner))

    @property
    def texts(self) -> tuple[str, ...]:
        """All arguments."""
        return (*self.given.values(), *self.plain)


def _mails(it: Method) -> bool:
    if it.name in _MAILS and "QueueUrl" not in it.given and (it.reaches_out or _MAILERS.search(it.owner)):
        return True
    return it.name == "send" and _MAIL_CLIENTS.search(it.owner) is not None


def _chats(it: Method) -> bool:
    return (
        it.in_snake in _CHATS
        or (it.in_snake == "post_message" and it.is_outside)
        or (it.name == "mail" and not it.owner and len(it.plain) > _SUBJECT)
        or (it.name in _MAKING and it.last in _CALLS and "to" in it.given)
    )


def _updates_all(it: Method) -> bool:
    given = it.given
    return (
        it.everything
        or "{}" in (given.get("where"), given.get("filter"))
        or (not _OF_DATA.isdisjoint(given) and "where" not in given)
    )


def _has_empty_condition(it: Method) -> bool:
    by_value = it.everything and it.given and "where" not in it.given and _MODELS.search(it.owner)
    return it.given.get("where") == "{}" or bool(by_value)


_RULES: tuple[tuple[Callable[[Method], object], ActEffect | None, str], ...] = (
    (
        lambda it: it.name in _MAKING and it.last in _MONEY_OBJECTS and _PAYS_BY_CODE.search(it.owner),
        ActEffect.SPENDS, "{last}_{name}",
    ),
    (_mails, ActEffect.SENDS, "{name}"),
    (_chats, ActEffect.SENDS, "{name}"),
    (lambda it: it.in_snake in _TOKEN_ACTS and it.last in _TOKENS and it.plain, ActEffect.SPENDS, "{name}"),
    (
        lambda it: it.in_snake in _STARTS and any(not _STRONG.isdisjoint(words(text)) for text in it.texts),
        ActEffect.HANDS_OVER, "{name}",
    ),
    (
        lambda it: it.in_snake in _PUTS and "" in (it.given.get("Body"), it.given.get("data"), it.given.get("body")),
        ActEffect.OVERWRITES, "{name}",
    ),
    (lambda it: it.in_snake in _OPENS and any(map(_OPEN_VALUE.search, it.texts)), ActEffect.EXPOSES, "{name}"),
    (lambda it: it.name == "make_public", ActEffect.EXPOSES, "{name}"),
    (lambda it: it.in_snake == "update_many" and _updates_all(it), ActEffect.OVERWRITES, "{name}"),
    (lambda it: it.in_snake == "update_many", None, ""),
    (lambda it: it.in_snake == "update_by_query" and "match_all" in it.given, ActEffect.OVERWRITES, "{name}"),
    (
        lambda it: it.name in ("sync", "synchronize") and it.given.get("force") == "true",
        ActEffect.DESTROYS, "{name}",
    ),
    (
        lambda it: it.name in ("update", "destroy") and _has_empty_condition(it),
        ActEffect.OVERWRITES, "update_every_row",
    ),
    (
        lambda it: it.name == "execute" and it.last in ("delete", "update") and it.owner[:1].isupper(),
        ActEffect.DESTROYS, "{last}_every_row",
    ),
    (lambda it: it.name == "publish" and not _TOPICS.isdisjoint(words(it.owner)), ActEffect.SENDS, "{name}"),
    (lambda it: it.in_snake == "update_all" and _CONDITION.search(it.owner), None, ""),
    (
        lambda it: it.in_snake == "delete_item" and "Key" in it.given,
        ActEffect.DESTROYS, "{name}",
    ),
    (lambda it: not _SETS_BY_CODE.isdisjoint((it.name, it.in_snake)), ActEffect.DESTROYS, "{name}"),
)  # fmt: skip
"""When a rule holds, its effect, and the verb; the first that holds applies. A call without an effect is harmless."""


def of_method(it: Method) -> tuple[str, ActEffect] | None:
    """Return a method's verb and irreversible effect, or None."""
    of_command = _rows_of(it.in_snake.replace("_", "-")) if it.given else ()
    if of_command and (it.is_outside or it.name.endswith("Command") or any(name[:1].isupper() for name in it.given)):
        argv = _as_options(it.given)
        effect = next((row.effect for row in of_command if rows.holds(row, argv)), None)
        return None if effect is None else (it.name, effect)
    for holds, effect, verb in _RULES:
        if holds(it):
            return None if effect is None else (verb.format(name=it.name, last=it.last), effect)
    if it.given and (it.name.startswith(_SETTERS) or (it.is_outside and it.in_snake.startswith(_SETTERS_OF_CLIENTS))):
        found = by_setting(it.name, it.given)
        if found is not None and found[1] is not ActEffect.SENDS:
            return f"{it.name} {found[0]}", found[1]
    return _by_words(it.owner, it.name) if it.is_outside and it.owner else None
