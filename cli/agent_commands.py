"""The help of `haltline hook`. `__main__` runs the command itself before anything else is loaded."""

import typer


def hook(ctx: typer.Context) -> None:
    """Answer a hook of Claude Code, Codex, Gemini CLI, Cline or opencode.

    `install` and `uninstall` change the agent's settings, `status` lists hooks and stopped sessions, and `release` lets
    one go on.

    Example: haltline hook install --local
    """
    from haltline.cli.agent.hook import main

    raise typer.Exit(main(ctx.args))


def register(app: typer.Typer) -> None:
    """Adds the command."""
    unparsed = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
    app.command(add_help_option=False, context_settings=unparsed)(hook)
