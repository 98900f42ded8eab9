"""Generates the dashboards in `dashboards` with Grafana's own SDK: `make dashboards`.

tests/deploy runs every query against a Prometheus that scrapes real processes, and compares the links with the
console's pages. Thresholds are those of the alerts in deploy/prometheus/haltline.rules.yml where there is one.
"""

import json
import sys
from pathlib import Path
from typing import Final

import decisions
import processes
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    TextBoxVariable,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardLinkType, VariableOption, VariableRefresh
from panels import SOURCE

CONSOLE: Final = "http://127.0.0.1:8460"
"""The default of the variable `console`; the Helm chart replaces it by the console's address."""

DASHBOARDS: Final = processes.DASHBOARDS | decisions.DASHBOARDS


def dashboard(name: str) -> Dashboard:
    """Return the dashboard with this file name."""
    title, panels = DASHBOARDS[name]
    made = Dashboard(title).uid(f"haltline-{name}").tags(["haltline"]).editable().refresh("30s").time("now-3h", "now")
    made.variables(
        [
            DatasourceVariable("datasource").label("Data source").type("prometheus"),
            QueryVariable("job")
            .label("Job")
            .datasource(SOURCE)
            .query("label_values(haltline_build_info, job)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(VariableOption(text="All", value="$__all")),
            TextBoxVariable("console").label("Console").default_value(CONSOLE),
        ]
    )
    dashboards = DashboardLink("haltline").type(DashboardLinkType.DASHBOARDS).tags(["haltline"]).as_dropdown(True)
    console = DashboardLink("Console").type(DashboardLinkType.LINK).url("${console}/fleet").target_blank(True)
    made.links([dashboards, console])
    for number, panel in enumerate(panels, 1):
        made.with_panel(panel.id(number))
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "dashboards")
    for name in DASHBOARDS:
        text = json.dumps(dashboard(name).build(), cls=JSONEncoder, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
