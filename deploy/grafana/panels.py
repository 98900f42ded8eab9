"""Panels of Grafana's SDK with haltline's common options, and shared query expressions."""

from typing import Final, TypeVar

from grafana_foundation_sdk.builders.common import GraphThresholdsStyleConfig, ReduceDataOptions
from grafana_foundation_sdk.builders.dashboard import (
    DashboardLink,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.timeseries import Panel as SeriesPanel
from grafana_foundation_sdk.models.common import GraphThresholdsStyleMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

SOURCE: Final = DataSourceRef("prometheus", "${datasource}")
_COLORS: Final = {
    "KILL": "dark-red", "ROLLBACK": "red", "BLOCK": "dark-orange", "PAUSE": "orange", "THROTTLE": "yellow",
    "REINFORCE": "light-blue", "NUDGE": "blue",
    "critical": "dark-red", "high": "orange", "medium": "yellow", "low": "blue",
}  # fmt: skip
"""Of the levels and severities, the same on each dashboard."""
J: Final = 'job=~"$job"'
RATE: Final = "[$__rate_interval]"
OF_WORKERS: Final = 'and on (job, instance) haltline_build_info{component="worker"}'
BY_COMPONENT: Final = "* on (job, instance) group_left (component) haltline_build_info"

AnyPanel = TypeVar("AnyPanel", SeriesPanel, StatPanel)


def _filled(panel: AnyPanel, title: str, queries: dict[str, str], unit: str, what: str) -> AnyPanel:
    panel.title(title).unit(unit).min(0).height(8).span(8).datasource(SOURCE)
    if what:
        panel.description(what)
    for letter, (legend, query) in zip("ABCD", queries.items(), strict=False):
        panel.with_target(Dataquery().ref_id(letter).expr(query).legend_format(legend).datasource(SOURCE))
    return panel


def series(
    title: str, queries: dict[str, str], unit: str = "short", what: str = "", limit: tuple[str, float] | None = None
) -> SeriesPanel:
    """Return a graph of queries by legend; `unit` is one of Grafana's. `limit` is a line: its colour, and where."""
    panel = _filled(SeriesPanel(), title, queries, unit, what)
    if limit is None:
        return panel
    line = GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(steps(("green", None), limit)).thresholds_style(line)


def stat(title: str, queries: dict[str, str], unit: str = "short", what: str = "") -> StatPanel:
    """Return a single number, in the colour of its threshold."""
    return _filled(StatPanel(), title, queries, unit, what).reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))


def by_name(panel: SeriesPanel) -> SeriesPanel:
    """Add the colours of levels and severities."""
    for name, color in _COLORS.items():
        panel.override_by_name(name, [DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})])
    return panel


def steps(*colors: tuple[str, float | None]) -> ThresholdsConfig:
    """Return thresholds: colours, each with the value from which it applies."""
    listed = [Threshold(value, color) for color, value in colors]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(listed)


def yes_no(title: str, query: str, yes: str, no: str, what: str) -> StatPanel:
    """Return a text: for 1 in green, for 0 in red."""
    words = ValueMap({"1": ValueMappingResult(yes, "green", index=0), "0": ValueMappingResult(no, "red", index=1)})
    return stat(title, {yes: query}, what=what).mappings([words])


def to(text: str, path: str) -> list[DashboardLink]:
    """Return a link to a page of the console, for `data_links`; a label of the series is `${__field.labels.NAME}`."""
    link = DashboardLink(text).type(DashboardLinkType.LINK)
    return [link.url("${console}" + path).target_blank(True)]


def rate(metric: str, by: str = "") -> str:
    """Return the rate per second of a counter, by labels."""
    labels = f" by ({by})" if by else ""
    return f"sum{labels} (rate(haltline_{metric}{{{J}}}{RATE}))"


def within(metric: str, condition: str = "") -> dict[str, str]:
    """Return the quantiles of a histogram, by legend."""
    buckets = f"sum by (le) (rate(haltline_{metric}_bucket{{{J}}}{RATE}){condition})"
    return {
        "half within": f"histogram_quantile(0.5, {buckets})",
        "99 % within": f"histogram_quantile(0.99, {buckets})",
    }


def of(component: str, metric: str) -> str:
    """Return a metric of one component's processes."""
    return f'haltline_{metric}{{{J}}} and on (job, instance) haltline_build_info{{component="{component}"}}'
