"""Programs whose words say that something goes, and which then name it: one table.

A line is `verb kind badness | program | words, other words | options with a value | default`: what follows the words is
lost. Of programs with the default `*` the values of the options are lost as well; with `.` (where it runs) only where
nothing follows. What a name says is production is SEVERE.

Misses: words of a program that are not listed; names in files.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from haltline.detectors.commands.invocation import Invocation
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.options import parse

_TABLE = """
pulumi_destroy stack SEVERE | pulumi | destroy, stack rm | -s --stack -C --cwd | .
cdk_destroy stack SEVERE | cdk | destroy | -a --app --profile | .
cdktf_destroy stack SEVERE | cdktf | destroy | | .
serverless_remove stack SEVERE | serverless sls | remove | --stage -s --region | .
sam_delete stack SEVERE | sam | delete | --stack-name --region | .
eksctl_delete stack SEVERE | eksctl | delete cluster | -n --name -r --region | .
kind_delete stack PLAIN | kind | delete cluster | --name | .
minikube_delete stack PLAIN | minikube | delete | -p --profile | .
heroku_destroy stack SEVERE | heroku | apps:destroy, pg:reset, addons:destroy | -a --app | .
fly_destroy stack SEVERE | fly flyctl | apps destroy, volumes destroy, destroy | -a --app | .
doctl_delete stack SEVERE | doctl | compute droplet delete, databases delete, compute volume delete | | .
firebase_delete stack SEVERE | firebase | firestore:delete, database:remove | --project | .
vagrant_destroy stack PLAIN | vagrant | destroy | | .
vercel_remove stack PLAIN | vercel | remove, rm | | .
rabbitmq_delete queue PLAIN | rabbitmqadmin | delete queue, purge queue, delete vhost, delete exchange | | *
rabbitmq_delete queue PLAIN | rabbitmqctl | delete_queue, purge_queue, delete_vhost | |
influx_delete bucket PLAIN | influx | delete, bucket delete | --bucket | *
netlify_delete site PLAIN | netlify | sites:delete | | *
airflow_delete dag PLAIN | airflow | dags delete | | *
consul_delete key PLAIN | consul | kv delete | |
kafka_delete topic PLAIN | rpk | topic delete | -X --brokers |
vault_disable secret SEVERE | vault | secrets disable, auth disable | |
vault_delete secret PLAIN | vault | kv delete, kv destroy, kv metadata delete, delete | |
drop_user user PLAIN | dropuser | | -h -p -U |
userdel user PLAIN | userdel deluser | | -R --root -P --prefix |
groupdel group PLAIN | groupdel delgroup | | -R --root -P --prefix |
"""
_DRY = ("--dry-run", "--preview-only", "-h")


class _Row(NamedTuple):
    verb: str
    kind: str
    badness: Badness
    patterns: tuple[tuple[str, ...], ...]
    valued: frozenset[str]
    default: str


def _read() -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for line in filter(None, _TABLE.splitlines()):
        head, programs, patterns, valued, default = (cell.strip() for cell in line.split("|"))
        verb, kind, badness = head.split()
        words = tuple(tuple(pattern.split()) for pattern in patterns.split(","))
        row = _Row(verb, kind, Badness[badness], words, frozenset(valued.split()), default)
        for program in programs.split():
            rows.setdefault(program, []).append(row)
    return rows


def _lost(rows: list[_Row], invocation: Invocation) -> Iterator[Destruction]:
    for row in rows:
        options = parse(invocation.argv[1:], row.valued, single_dash_words=invocation.name == "vault")
        if row.default == "." and options.has(*_DRY):
            continue
        for pattern in row.patterns:
            if options.operands[: len(pattern)] != pattern:
                continue
            names = options.operands[len(pattern) :]
            if row.default == "*" or (row.default and not names):
                names += options.values(*row.valued)
                names = names or ((invocation.path(".") if row.default == "." else row.default),)
            for name in names:
                what = name.partition("=")[2] or name if row.default == "*" else name
                bad = Badness.SEVERE if is_production(what) else row.badness
                yield Destruction(row.verb, f"{row.kind}={what}", bad)


TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {
    program: partial(_lost, rows) for program, rows in _read().items()
}
