"""Irreversible effects of tools, by the words of their names and by arguments with settings: extensible tables.

A line of `NAMES` is `effect | verbs | things`. A tool matches if its name starts (or ends) with one of the verbs and
has one of the things among its other words; `*` requires none, `-` before a thing excludes it.

A line of `SETTINGS` is `effect | argument | value`, both full-match patterns, for tools that change something.

Misses: uninformative names; service-specific argument names.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.model import ActEffect, listed
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb, words

_NAMES = """
spends | pay repay prepay | *
spends | send make create issue execute initiate process submit capture confirm authorize schedule request place complete finalize perform new add post | payment payments payout payouts refund refunds transfer charge donation trade purchase bid deposit remittance withdrawal reimbursement swap wager topup wire money funds eth btc usdc sol crypto coins tokens transaction -human -agent -file -files -data -call -draft -method -methods -link -status -sheet -intents
spends | place submit create confirm complete finalize checkout send execute | order orders booking reservation checkout -draft -template -list -cart -status -note
spends | refund withdraw buy purchase sell checkout donate invest stake bet gamble disburse reimburse remit topup payout order hire rent wire short liquidate redeem spend | * -by -attention -status -history -draft -policy -list -number
spends | transfer | bank wire sepa funds money balance payment amount eth btc crypto coins tokens usd credits points stock shares cash asset_value
spends | charge bill debit | customer card account user client wallet invoice subscription
spends | book reserve | flight flights hotel hotels room rooms ticket tickets trip train car cab taxi ride rental reservation seat seats cruise tour restaurant itinerary travel
spends | create start upgrade renew activate change extend | subscription subscriptions plan tier membership license licenses seats contract
spends | set update increase raise change launch start resume boost activate create enable | budget budgets spend bid campaign campaigns ad ads adset -draft -newsletter
spends | approve accept sign | invoice invoices expense expenses payment payments payout purchase refund quote contract loan offer budget timesheet
spends | cancel | order orders booking bookings reservation reservations flight flights ticket tickets shipment hotel trip appointment -ticket_watch
spends | settle tip | invoice trade payment bet account creator driver
spends | close | position positions
spends | mint burn bridge lend borrow stake unstake swap | token tokens nft nfts eth usdc coin coins crypto position liquidity
spends | add load | funds credits money
spends | launch provision lease | instance instances gpu gpus cluster clusters vm vms server servers node nodes droplet -browser -test
spends | increase raise | quota limit
spends | approve sign | transaction transaction_batch withdrawal allowance agreement document nda lease
spends | recharge | *
spends | request | ride taxi cab
spends | payroll | * -report -summary -status
spends | submit process approve | payroll
spends | issue grant apply | credit credits discount coupon voucher gift giftcard
spends | modify amend | order -status -note -address -by -display -sort -element -column -tab
spends | trade swap | stock stocks shares token tokens crypto order asset position -file
spends | register transfer renew | domain domains
sends | send | envelope envelopes contract invoice invoices
sends | upload | pypi npm testflight
sends | send publish | draft drafts
sends | publish | document documents entry entries content course template theme
sends | send post reply | slack discord teams telegram whatsapp mattermost wechat messenger channel dm
sends | publish post | substack medium ghost wordpress blogger tumblr mastodon bluesky hashnode devto
sends | send | recipients subscribers customers contacts everyone
sends | send deliver dispatch blast mail | email emails mail mails newsletter newsletters campaign campaigns sms fax letter bulk mass invitation invitations announcement blast mailing push broadcast whatsapp template_message -draft
sends | gmail outlook email mail sendgrid mailgun mailchimp postmark ses smtp twilio | send
sends | broadcast blast email mail | all everyone everybody users customers subscribers members staff list message announcement team company
sends | broadcast | *
sends | reply forward | email mail gmail outlook all everyone
sends | submit lodge | tax taxes return claim filing petition visa vote ballot bid tender -draft
sends | file | tax taxes claim lawsuit complaint petition
sends | cast | vote ballot
sends | page | oncall call engineer responder
sends | send create trigger | postcard letters siren evacuation
sends | notify alert message | all everyone everybody subscribers customers
sends | make place start dial | call phone
sends | tweet retweet repost | *
sends | post publish share create submit schedule | tweet tweets twitter linkedin facebook instagram reddit tiktok youtube threads mastodon bluesky blog article story reel video podcast package packages app extension post posts page site website release version press announcement listing job_ad status -commit -check -draft -message -comment -reply -issue -review -request
sends | publish release ship submit upload | youtube tiktok instagram vimeo soundcloud appstore playstore app_store testflight
sends | publish release ship submit | package app site page release version store production prod article post video listing product image crate gem npm pypi
sends | deploy promote release rollout ship | production prod live
exposes | grant give | access permission permissions role roles privilege privileges admin rights ownership owner scope consent
exposes | add invite | collaborator collaborators admin admins owner owners administrator
exposes | make set promote elevate | public admin owner superuser administrator
exposes | transfer | ownership owner repository repo project organization workspace
exposes | elevate escalate | privilege privileges permission permissions access rights
exposes | enable | public anonymous guest root rdp telnet impersonation
exposes | whitelist allowlist impersonate unprotect | *
spends | top | up
spends | start | gpu gpus
spends | release | escrow funds deposit payment
destroys | termination cancellation deactivation suspension revocation | account user contract subscription employee instance customer
exposes | create generate | public -key -keys -keypair -ip -subnet -method -class
exposes | create generate | shareable sharelink access -log -list -report -request -review
exposes | assign attach bind | admin owner policy administrator
exposes | open expose publish share | public world port firewall internet everyone anyone
exposes | disable remove bypass deactivate stop | mfa 2fa totp firewall auth authentication authorization encryption rls ssl tls waf antivirus audit logging protection sso saml oauth captcha guardduty cloudtrail xdr guardrail guardrails sandbox policy monitoring alarm alarms alert alerts alerting dlp edr defender 2sv verification signing
exposes | unlock open disarm | door doors valve gate garage vault safe house alarm lock locks
exposes | authorize allow | ingress egress all public anonymous inbound
destroys | disable stop suspend pause | backup backups versioning snapshot snapshots retention replication recovery
destroys | terminate kill decommission | instance instances server servers vm vms cluster clusters database host node account user environment contract employee workspace site subscription
destroys | mute resolve logout reassign close kill end pause stop lock reject cancel | all everything everyone bulk mass -tabs -timers -tests -containers -windows
destroys | disable suspend pause | service services project app application site website store webhook
destroys | recycle | file folder item page
destroys | mark report | spam abuse phishing
destroys | put set update create apply configure | lifecycle -hook -hooks -event -state -stage
destroys | seal | *
destroys | kill | switch
destroys | kick expel boot | user users member members guest participant
destroys | unsubscribe | mass bulk all everyone users customers contacts list subscribers members
destroys | void | invoice payment check transaction contract label shipment order envelope
destroys | reject decline deny | application loan claim candidate mortgage visa
destroys | dissolve disband | *
destroys | dismiss fire layoff | employee employees staff worker
destroys | downgrade | plan subscription account database cluster version tier
destroys | scale | down zero
destroys | failover cutover | *
destroys | anonymize anonymise pseudonymize redact | user users customer customers data records account accounts
destroys | reset | password passwords mfa credentials
destroys | archive | *
destroys | archive | channel channels conversations repo repository project account workspace
destroys | cancel close end | invoice invoices subscription subscriptions account accounts contract membership policy license plan domain workspace organization tenant
destroys | deactivate suspend ban block lock freeze offboard fire disable | user users account accounts member members customer customers employee key keys token card domain site tenant
destroys | revoke rotate expire invalidate regenerate | key keys token tokens access certificate certificates cert secret secrets credential credentials permission permissions license session_all all api
destroys | factory reset format reformat reimage reinstall rebuild wipe erase | device devices disk disks drive drives volume partition phone machine server database db cluster factory index environment tenant sd
destroys | reformat | *
destroys | factory | reset defaults
destroys | sunset scrap demolish dismantle kill axe abandon retire zero blank nullify void unset burn torch smash ditch depopulate gut | dataset database service api product version model server system account accounts project feature table tables vehicle asset environment site domain column columns field fields balance balances record records contract disk volume cluster index bucket backup -column_header -blank_line
destroys | off | board boarding
destroys | offboard | *
spends | issue | card cards -create -add -move -update -board -project
destroys | shutdown stop poweroff halt reboot power | server servers instance instances vm vms database host cluster machine production datacenter node
destroys | detach unmount eject | volume disk drive database storage
destroys | unpublish retract recall takedown withdraw_post yank deprecate | * -app_link
destroys | clear | database data backups everything
destroys | remove | all everything everyone user users account accounts project repository database member members permanently environment server domain organization workspace team collaborator customer customers data backups
destroys | force | push
destroys | rewrite squash | history
destroys | empty flush clear truncate purge reset | bucket queue table namespace kv storage database trash topic index collection disk store recyclebin keyspace stream
destroys | drain evict cordon | node nodes
destroys | move | trash bin junk spam
destroys | merge dedupe | contacts accounts customers records users tickets leads -request -pull -branch
overwrites | restore rollback | backup backups database db snapshot snapshots table cluster volume instance disk server deployment release migration -deleted -transaction -window
overwrites | revert | snapshot database vm volume deployment disk backup
overwrites | swap | slots slot environment environments dns urls cname database
overwrites | shift route reroute | traffic
overwrites | overwrite | * -protection
overwrites | bulk mass batch | update edit replace change set overwrite
overwrites | update replace set edit reset change | all everything everyone -filter -filters -mocks -breakpoints -counters -timers -cache -caches
overwrites | update set change replace transfer | nameservers nameserver dns record_set rrset mx cname
"""
_SETTINGS = r"""
exposes | (\w+_)?(visibility|privacy)(_\w+)?|access|access_level|(\w+_)?sharing|with|shared_with|link_access|audience_access|share_with|privacy | public|anyone\w*|everyone|world|internet|public[_ -]\w+|anonymous|unlisted|open
exposes | link_(access|role|permission)|general_access | (?!restricted|none|off|private|disabled)\w+
exposes | actions? | \*
exposes | private|is_private|block_public\w*|\w*public_access_block\w*|restrict\w*_access | false
exposes | public|is_public|make_public|publicly_accessible|public_access|allow_public\w*|anonymous\w*|world_readable|allow_unauthenticated | true
exposes | acl|canned_acl|predefined_acl | public\S*|allusers\S*|authenticated\S*
exposes | type|grantee|principal|member|scope|who|user|group|entity | anyone\w*|everyone|allusers|allauthenticatedusers|\*|public
exposes | (\w+_)?(address_prefix|source_ips?|cidr\w*|allowed_ips?) | \*|any|internet
exposes | enforce\w*|requires?_(\w+_)?(review|approval|check|mfa|auth|sign)\w* | false
exposes | mode|permissions|chmod | 0?o?[0-7]?(777|666|767|776|773|722|733)|a\+\w*w\w*|o\+\w*w\w*
exposes | \w*cidr\w*|source|source_ranges?|ip_range|source_ip|remote_ip\w*|address_prefix | 0\.0\.0\.0(/0)?|::/0
exposes | (\w+_)?(type|group|group_(id|name)) | ((super|global|org|organization|system|site|domain|cluster)[_ -]?)?(admins?|administrators?|superusers?|owners?)
exposes | role|permission|permissions|privilege|access_level|role_name|new_role|policy|policy_arn|scopes? | \S*(admin|administrator|owner|root|superuser|superadmin|fullaccess|full_access|sysadmin)\S*|all|\*
destroys | (\w+_)?retention\w*|retention(\.\w+)?|\w*expir\w{0,80}(days|hours|seconds)|expire_after\w*|\w*backup_retention\w* | -?[0-7]|\d{1,4}ms|[0-7][dhms]?|-?\d{1,5}
destroys | (\w+_)?(delete|purge|destroy|erase)\w{0,80}_(after|days)\w* | [0-7]
destroys | \w*_?ttl\w*|\w*time_to_live\w*|expireafterseconds | [0-9]{1,2}
destroys | (\w+_)?(replicas?|replica_count|instances?_count|desired\w*|max_size|max_instances|max_capacity|node_count|num_\w{0,80}nodes|capacity|dynos|concurrency) | 0
destroys | (object_)?versioning\w*|backups?(_enabled)?|automatic_backups|enable_backups|deletion_protection\w*|termination_protection|soft_delete\w*|point_in_time_recovery|snapshots_enabled|replication | false|off|disabled|suspended|none|0
destroys | (is_)?active | false
destroys | (is_)?(blocked|banned|suspended|deactivated) | true
destroys | (\w+_)?(labels?|folder|mailbox)(_(ids?|names?))? | trash|spam|junk
destroys | remove_(absent|missing|others|extra\w*|unlisted) | true
destroys | archived|is_archived|in_trash|trashed|is_trashed|is_deleted|soft_deleted | true
destroys | (?!.*(branch|temp|cache|orphan|dry|index|old_))(\w+_)?(destroy|purge|prune|wipe|erase|truncate|delete|drop)(_\w+)? | true
destroys | status|state|account_status|new_status|lifecycle | suspended|terminated|deactivated|inactive|disabled|archived|revoked|decommissioned|banned|purged|wiped|destroyed|trash|trashed
sends | (\w+_)?(status|state) | publish|published|live
overwrites | (\w+_)?(price|salary|quantity|inventory|stock|balance|available|on_hand) | 0(\.0+)?
overwrites | delete_extra\w*|delete_extraneous|delete_destination|delete_removed|purge_dest\w*|mirror | true
overwrites | overwrite\w*|replace_existing|force_overwrite|clobber | true
overwrites | drop_existing|truncate_first|clean_first|clear_before\w*|wipe_first | true
sends | audience|segment|topic|chat|chat_id|room|recipients?|to|list|target_audience|channel|channels|send_to|bcc|cc | #?(general|announce\w*|company(-?wide)?|all[_ -]?(hands|company|staff))|all|everyone|everybody|@?all[_ -](users|customers|subscribers|staff|employees|members)|(all|everyone|all-\w+|staff|company|team)@\S+|@(all|everyone|channel|here)
"""
_AT_THE_END = frozenset(listed("""
    archive send publish pay refund checkout purchase buy sell broadcast terminate deactivate suspend ban revoke
    withdraw disable deploy restore rollback create submit format flush prune evict overwrite payroll transfer execute
"""))  # fmt: skip
"""Verbs that may be the last word of a name: `order_submit`."""
_READS = frozenset(listed("""
    get list read search find describe show view fetch count check query select is has can may should preview plan
    simulate validate verify test estimate explain ask suggest calculate quote draft lookup compare analyze watch poll
    wait export download render undo think dry track monitor log say inspect review retrieve load open browse diff
    summarize remember recall_memory unban
"""))  # fmt: skip
"""First words in names of tools that only read, or undo."""
_LOOKS_ALONE = frozenset(("status", "info", "history", "logs", "details", "health", "help", "ls", "metrics", "state"))
"""Operations that only read if the name has no other word."""
_MODIFIERS = frozenset(listed("""
    safe soft force do try admin api auto tool my perform exec run async really user please
"""))  # fmt: skip
_AGREES = frozenset(("accept", "approve", "sign", "send", "publish"))
"""Verbs that finalize a draft."""
_OPENED = frozenset(("port", "ports", "firewall", "door", "doors", "gate", "valve", "world", "public"))
_UNFINISHED = frozenset(("draft", "drafts", "template", "templates", "cart", "basket", "wishlist", "quote"))
_OPERATION_ARGS = ("action", "operation", "op", "method", "command", "verb", "function", "operation_name", "intent",
                   "operation_id", "aktion", "accion", "acao", "azione", "actie", "befehl", "vorgang", "orden",
                   "comando", "ordre", "commande")  # fmt: skip
_CHANGES = frozenset(listed("""
    set update put patch modify configure change edit scale apply create add share enable disable alter grant assign
    authorize attach manage upsert save sync mirror copy restore import load upload resize invite publish send post
    deploy open make notify broadcast expire reconfigure chmod kubectl adjust alter toggle
"""))  # fmt: skip
"""Verbs of tools whose arguments are settings."""
_SAYS_OPERATION = frozenset((*_OPERATION_ARGS, "service"))
_MANY_RECIPIENTS = 10
_MENTIONS = re.compile(r"(?:^|[\s<])[@!](?:channel|everyone|here|all)\b")
_CONTENTS = frozenset(("rows", "records", "values", "items", "data", "entries", "documents", "members", "users"))
_MAX_DEPTH = 3
_MAX_PAIRS = 64


class Name(NamedTuple):
    """One line of `NAMES`."""

    effect: ActEffect
    verbs: frozenset[str]
    things: frozenset[str]
    never: frozenset[str]


def _names(text: str) -> tuple[Name, ...]:
    rows = []
    for line in filter(None, text.splitlines()):
        effect, verbs, things = (cell.strip() for cell in line.split("|"))
        listed = things.split()
        rows.append(
            Name(
                ActEffect(effect),
                frozenset(verbs.split()),
                frozenset(word for word in listed if word[0] != "-" and word != "*"),
                frozenset(word[1:] for word in listed if word[0] == "-"),
            )
        )
    return tuple(rows)


NAMES = _names(_NAMES)

_MAX_SETTING_CHARS = 120


def _setting(line: str) -> tuple[ActEffect, re.Pattern[str], re.Pattern[str]]:
    effect, named, valued = (cell.strip() for cell in line.split(" | "))
    return (
        ActEffect(effect),
        re.compile(rf"\A(?=[\w.]{{0,{_MAX_SETTING_CHARS}}}\Z)(?:{named})", re.IGNORECASE),
        re.compile(rf"\A(?:{valued})", re.IGNORECASE),
    )


SETTINGS = tuple(map(_setting, filter(None, _SETTINGS.splitlines())))
_BY_VERB = {verb: tuple(row for row in NAMES if verb in row.verbs) for row_ in NAMES for verb in row_.verbs}

_SETTLED = frozenset((*_BY_VERB, *_CHANGES, *_READS)) - {"bulk", "mass", "batch"}
"""Words after which no other verb is the leading one."""


@lru_cache(maxsize=4096)
def by_name(name: str, *, alone: bool = True) -> tuple[str, ActEffect] | None:
    """Return the name and effect of a tool name such as `create_refund`; None if it shows none.

    `alone`: allow rows without a thing.
    """
    english = in_english(name)
    parts = english or words(name)
    while not english and len(parts) > 1 and parts[0] in _MODIFIERS and parts[0] != "force":
        parts = parts[1:]
    if parts[:2] in (("turn", "off"), ("switch", "off")):
        parts = ("disable", *parts[2:])
    if not parts or (_AGREES.isdisjoint(parts[:-1]) and not _UNFINISHED.isdisjoint(parts)):
        return None
    if not _READS.isdisjoint(parts) if english else only_looks("_".join(parts)):
        return None
    for at in range(len(parts)) if english else _leads(parts):
        lead, others = parts[at], parts[:at] + parts[at + 1 :]
        at_end = 0 < at == len(parts) - 1 and lead not in _AT_THE_END
        if (english or at) and destroying_verb("_".join((lead, *others))) == lead:
            return "_".join(words(name)), ActEffect.DESTROYS
        for row in _BY_VERB.get(lead, ()):
            holds = not row.things.isdisjoint(others) if row.things else alone and not at_end
            if holds and row.never.isdisjoint(others):
                return "_".join(words(name) if english else parts), row.effect
    return None


def _leads(parts: tuple[str, ...]) -> Iterator[int]:
    """Yield the possible indexes of the verb: first, last, or after the name of a service: `stripe_create_refund`."""
    yield 0
    if parts[-1] in _AT_THE_END or (parts[-1] in _BY_VERB and _SETTLED.isdisjoint(parts[:-1])):
        yield len(parts) - 1
    is_settled = parts[0] in _SETTLED
    for at, word in enumerate(parts[1:-1], 1):
        if word in _READS or (at > 1 and is_settled):
            return
        if word in _BY_VERB:
            yield at
        is_settled = is_settled or word in _SETTLED


@lru_cache(maxsize=4096)
def only_looks(name: str) -> bool:
    """Return whether a tool with this name only reads, or undoes."""
    parts = words(name)
    return bool(parts) and parts[0] in _READS and not (parts[0] == "open" and not _OPENED.isdisjoint(parts))


@lru_cache(maxsize=4096)
def sets(name: str) -> bool:
    """Return whether the arguments of a tool with this name are settings."""
    return not _CHANGES.isdisjoint(words(name)) and _UNFINISHED.isdisjoint(words(name))


def operations(action: str, args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a call's operation: the tool's name, and its operation with and without the tool's name."""
    if _SAYS_OPERATION.isdisjoint(args):
        return (action,)
    names = [action]
    if isinstance(args.get("domain"), str) and isinstance(args.get("service"), str):  # a call of Home Assistant
        names.append(f"{args['service']}_{args['domain']}"[:64])
    for name in _OPERATION_ARGS:
        value = args.get(name)
        if isinstance(value, str) and 1 < len(value) <= 64:
            names += (f"{value}_{action}", value)
    return tuple(names)


@lru_cache(maxsize=4096)
def words_of_all(names: tuple[str, ...]) -> frozenset[str]:
    """Return the words of several names, in English."""
    return frozenset(word for name in names for word in in_english(name) or words(name))


@lru_cache(maxsize=4096)
def by_names(names: tuple[str, ...]) -> tuple[bool, tuple[str, ActEffect] | None]:
    """Return whether one of several names determines the effect, and the result of `by_name`; None if it only reads."""
    for name in names:
        looks = name in _LOOKS_ALONE or only_looks(name)
        found = None if looks else by_name(name)
        if found is not None or looks:
            return True, found
    return False, None


def by_setting(action: str, args: Mapping[str, Any]) -> tuple[str, ActEffect] | None:
    """Return the setting and effect of the first irreversible setting in the arguments."""
    for key, value in pairs(args):
        key_ = key if key.islower() and key.isidentifier() else "_".join(words(key))
        if isinstance(value, list) and not value and key_ in _CONTENTS and words(action)[:1] != ("create",):
            return f"empty_{key_}", ActEffect.OVERWRITES
        one = value[0] if isinstance(value, list) and len(value) == 1 else value
        if one is None or isinstance(one, dict | list):
            continue
        text = str(one).strip()
        if len(text) > 12 and "replicas" in text and _TO_NOTHING.search(text) is not None:
            return "scale_to_nothing", ActEffect.DESTROYS
        if key_ in _PROSE and _MENTIONS.search(text) is not None:
            return "mention_all", ActEffect.SENDS
        if len(text) > _MAX_SETTING_CHARS:
            continue
        for effect, valued in _settings_of(key_) if len(key_) <= _MAX_SETTING_CHARS else ():
            if valued.fullmatch(text) is not None:
                return f"{key_}_{text.lower()}"[:60], effect
    return None


@lru_cache(maxsize=4096)
def _settings_of(key: str) -> list[tuple[ActEffect, re.Pattern[str]]]:
    """Return the lines of `SETTINGS` for an argument."""
    return [(effect, valued) for effect, named, valued in SETTINGS if named.fullmatch(key) is not None]


"""The cache is effective, since few argument names are in use."""

_TO_NOTHING = re.compile(r"\breplicas[\"']?\s*:\s*0\b")
_PROSE = frozenset(("text", "content", "message", "body"))


def to_many(args: Mapping[str, Any]) -> bool:
    """Return whether a message has many recipients."""
    return any(
        isinstance(args.get(name), list) and len(args[name]) >= _MANY_RECIPIENTS
        for name in ("to", "recipients", "bcc", "cc", "emails", "users", "numbers")
    )


def pairs(args: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the arguments and nested ones, down to a maximum depth; `{"name": "ttl", "value": 1}` counts as one."""
    for key, value in islice(args.items(), _MAX_PAIRS):
        yield str(key), value
        if depth < _MAX_DEPTH:
            for inner in value[:_MAX_PAIRS] if isinstance(value, list) else (value,):
                if isinstance(inner, dict):
                    yield from pairs(inner, depth + 1)
    if depth and "value" in args and isinstance(name := args.get("name", args.get("key")), str):
        yield name, args["value"]
