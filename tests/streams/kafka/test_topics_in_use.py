"""Topics that an earlier release has grown: whoever is configured with the former prefix learns the present one."""

import pytest

from haltline.cli.common import Exit
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.kafka.topics_in_use import TopicsGrown, topics_in_use
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.grown_topics import GROWN
from tests.streams.commands import haltline

FOLLOWING = Topics("haltline.2.")


def test_the_former_prefix_is_refused_by_every_process_and_the_present_one_is_used(embedded: EmbeddedBroker) -> None:
    bootstrap = embedded.bootstrap
    assert topics_in_use(bootstrap, "haltline.") == Topics()
    assert topics_in_use(bootstrap, "never.") == Topics("never.")
    embedded.ensure_topics(FOLLOWING)
    for topics in (FOLLOWING, Topics()):
        produce_confirmed(bootstrap, topics.control, key=SETS_KEY, value=GROWN)
    with pytest.raises(TopicsGrown, match=r"grown to haltline\.2\.\*: set --prefix haltline\.2\. "):
        topics_in_use(bootstrap, "haltline.")
    assert topics_in_use(bootstrap, FOLLOWING.prefix) == FOLLOWING
    commands = (["worker"], ["audit", "--table", "none"], ["status"], ["console"], ["topics", "check"])
    for command in commands:
        ended = haltline(*command, "--bootstrap", bootstrap)
        assert (ended.exit_code, "set --prefix haltline.2." in ended.stderr) == (Exit.NO, True), (command, ended.output)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"{}", b'{"prefixes":[]}', b'{"prefixes":"haltline."}'])
def test_what_is_no_such_entry_refuses_nothing(value: bytes | None) -> None:
    assert Topics().grown(value) == ""
