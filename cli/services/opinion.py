"""`haltline opinion`: asks a model for second opinions."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    FetchWait,
    MetricsHost,
    MetricsPort,
    PolicyFile,
    PolicyName,
    UsageErrors,
    group_of,
    option_of,
)
from haltline.cli.policy_option import read_plugins, read_policy

KEY: Final = "HALTLINE_OPINION_API_KEY"
"""The variable with the key, without a file. There is no option for the key, as other users can read those."""


@with_cluster()
def opinion(
    *,
    url: Annotated[str, option_of("opinion.url", more="Such as https://api.openai.com/v1.")],
    model: Annotated[str, option_of("opinion.model")],
    api_key_file: Annotated[
        Path | None, option_of("opinion.api_key_file", more=f"Default: the variable {KEY}, else no key.")
    ] = None,
    policy: PolicyFile = None,
    policy_name: PolicyName = "default",
    at: Cluster,
    fetch_wait_ms: FetchWait = 500,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = 9473,
) -> None:
    """Ask a model for second opinions on findings in doubt, until SIGTERM or Ctrl-C.

    The policy's section `opinion` has the thresholds, the timeout and the cost limit; without it nothing is requested.
    Exit 0 after a clean stop. docs/opinion.md describes what is sent, and the effect of a verdict.

    Example: haltline opinion --url http://127.0.0.1:11434/v1 --model qwen3 --bootstrap kafka-1:9092
    """
    from haltline.cli.services.run import log_to_stderr
    from haltline.streams.opinion.judge import Judge
    from haltline.streams.opinion.reviewer import Reviewer, ReviewerSettings
    from haltline.streams.policy.loader import BadPolicy
    from haltline.streams.policy.source import PolicyFile as FollowedFile
    from haltline.streams.policy.source import PolicyTopic
    from haltline.streams.runtime.metrics import Metrics
    from haltline.streams.runtime.service import run_service

    read_policy(policy)  # before any connection is opened
    plugins = read_plugins()
    log_to_stderr()
    with UsageErrors(OSError, ValueError):
        key = os.environ.get(KEY, "") if api_key_file is None else api_key_file.read_text(encoding="utf-8").strip()
        judge = Judge(url, model, key)
    settings = ReviewerSettings(
        bootstrap=at.bootstrap,
        topics=at.topics,
        group=f"{group_of(at.prefix)}-opinion",
        client=at.client_config,
        fetch_wait_ms=fetch_wait_ms,
    )
    with UsageErrors(OSError, BadPolicy, ValueError):
        source: FollowedFile | PolicyTopic = (
            PolicyTopic(at.bootstrap, at.topics.policies, policy_name, plugins, client=at.client_config)
            if policy is None
            else FollowedFile(policy, plugins)
        )
        metrics = Metrics("opinion")
        with closing(source):
            reviewer = Reviewer(settings, judge, source, metrics)
            code = run_service(reviewer, "opinion", metrics, (metrics_host, metrics_port), at.bootstrap)
    raise typer.Exit(code)
