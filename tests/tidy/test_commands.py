"""Every verb of the command line is documented, by what it says about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from mooring.main import cli

HEADING = """\
# Commands

What `mooring` and each of its verbs say with `--help`; written by `make golden`.
"""


def told(command: click.Command, context: click.Context) -> Iterator[str]:
    """The help of a command, then of the commands below it."""
    yield f"## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            with click.Context(
                inner, info_name=name, parent=context, max_content_width=80
            ) as below:
                yield from told(inner, below)


def test_every_command_says_what_it_does(golden: Callable[[str, str], None]) -> None:
    width = {"max_content_width": 80, "terminal_width": 80}
    with click.Context(cli, info_name="mooring", **width, **cli.context_settings) as root:
        golden("docs/commands.md", "\n".join([HEADING, *told(cli, root)]))


def verbs(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path} {name}")


def test_every_verb_and_every_option_has_a_description() -> None:
    silent = [path for path, command in verbs(cli, "mooring") if not command.help]
    silent += [
        f"{path} {option.opts[0]}"
        for path, command in verbs(cli, "mooring")
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent
