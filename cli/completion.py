"""`haltline completion`: the completion script of a shell."""

from typing import Annotated, Literal

import typer
from typer._completion_shared import get_completion_script


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="For which shell.", metavar="SHELL")],
) -> None:
    """Print the script with which bash, zsh or fish completes commands and options. Changes no file.

    bash: put `source <(haltline completion bash)` into ~/.bashrc. zsh: put `source <(haltline completion zsh)` behind
    compinit in ~/.zshrc. fish: write it to ~/.config/fish/completions/haltline.fish.

    Example: haltline completion bash
    """
    typer.echo(get_completion_script(prog_name="haltline", complete_var="_HALTLINE_COMPLETE", shell=shell))
