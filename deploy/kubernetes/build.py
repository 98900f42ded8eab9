"""Generates the manifests beside it from the Helm chart, their source: `make manifests`.

What only Helm needs is left out: its labels, and the checksum of the environment that restarts pods (kustomize adds one
to the ConfigMap's name). The kustomizations, the namespace and the ConfigMap's values are maintained by hand.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
CHART: Final = HERE.parent / "helm" / "haltline"
VALUES: Final = ("topics.hook=false", "keda.enabled=true", "podMonitor.enabled=true", "prometheusRule.enabled=true")
BASE: Final = [
    "audit",
    "canary",
    "console",
    "intake",
    "network",
    "notify",
    "serviceaccount",
    "shadow",
    "topics",
    "worker",
]
FOLDERS: Final = {
    **dict.fromkeys(BASE, "base"),
    "keda": "keda",
    "podmonitor": "prometheus-operator",
    "prometheusrule": "prometheus-operator",
}
"""The folder of each template's objects; the file has the template's name."""

_OF_HELM: Final = re.compile(
    r"(?m)^ *(helm\.sh/chart|app\.kubernetes\.io/(version|managed-by)|annotations: \{.checksum).*\n| +$"
)


def rendered(helm: str, *values: str) -> dict[str, str]:
    """Return the objects by template, in Helm's order."""
    sets = [word for value in values for word in ("--set", value)]
    command = [helm, "template", "haltline", str(CHART), "--kube-version", "1.30.0", *sets]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, list[str]] = {}
    for document in re.split(r"(?m)^---\n", output):
        source, _, text = document.partition("\n")
        if text.strip():
            found.setdefault(Path(source).stem, []).append(_OF_HELM.sub("", text).strip() + "\n")
    return {name: "---\n".join(documents) for name, documents in found.items()}


def manifests(helm: str) -> dict[Path, str]:
    """Return the text of each file, by path."""
    # Without KEDA the workers have a fixed number of replicas.
    texts = rendered(helm, *VALUES) | {"worker": rendered(helm)["worker"]}
    return {HERE / folder / f"{name}.yaml": texts[name] for name, folder in FOLDERS.items()}


if __name__ == "__main__":
    for file, text in manifests(sys.argv[1]).items():
        file.write_text(text, encoding="utf-8")
