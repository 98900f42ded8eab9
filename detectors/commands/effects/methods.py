"""What methods of a program's clients do that cannot be taken back, by names, owners and arguments: sets to extend.

Misses: clients whose methods are not named after what they do; arguments that are computed.
"""

import re
from collections.abc import Mapping

from haltline.detectors.commands.effects.tools import by_setting
from haltline.detectors.commands.model import ActEffect, listed

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
_MAILERS = re.compile(r"smtp|mail|ses|sendgrid|twilio|server|client|api|(?:^|\.)s$", re.IGNORECASE)
_OPENS = frozenset((
    "put_bucket_acl", "put_object_acl", "put_bucket_policy", "put_public_access_block", "set_iam_policy",
    "make_public", "set_container_access_policy", "add_permission", "authorize_security_group_ingress",
    "attach_user_policy", "attach_role_policy", "put_user_policy", "put_role_policy", "chmod", "fchmod",
))  # fmt: skip
_SETS_BY_CODE = frozenset(listed("""
    put_bucket_lifecycle_configuration put_bucket_lifecycle put_retention_policy put_bucket_versioning
    decrease_stream_retention_period disable_key schedule_key_deletion stop_instances update_time_to_live stop_logging
    add_lifecycle_delete_rule clear_lifecyle_rules update_many updateMany bulk_update updateAll recursiveDelete
"""))  # fmt: skip
_OPEN_VALUE = re.compile(
    r"public|allusers|\*|0\.0\.0\.0/0|administratoraccess|fullaccess|0?o?[0-7]?(?:777|666|767|776)|511|anyone|\bfalse\b",
    re.IGNORECASE,
)


def of_method(
    owner: str, method: str, given: Mapping[str, str], plain: list[str], *, everything: bool
) -> tuple[str, ActEffect] | None:
    """What a method of a program's client does.

    `given` are its arguments by name, `plain` the others; `everything`: its first argument says no condition.
    """
    last = owner.rpartition(".")[2].lower()
    if method in _MAKING and last in _MONEY_OBJECTS and _PAYS_BY_CODE.search(owner):
        return f"{last}_{method}", ActEffect.SPENDS
    if method in _MAILS and _MAILERS.search(owner):
        return method, ActEffect.SENDS
    if method in _OPENS and any(_OPEN_VALUE.search(text) for text in (*given.values(), *plain)):
        return method, ActEffect.EXPOSES
    if method == "make_public":
        return method, ActEffect.EXPOSES
    if method in ("update_many", "updateMany"):
        return (method, ActEffect.OVERWRITES) if everything else None
    if method in _SETS_BY_CODE:
        return method, ActEffect.DESTROYS
    if method.startswith(("modify_", "update_", "set_", "put_", "patch_", "scale_")) and given:
        found = by_setting(method, given)
        if found is not None and found[1] is not ActEffect.SENDS:
            return f"{method} {found[0]}", found[1]
    return None
