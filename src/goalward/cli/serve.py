"""`goalward serve`: several studies in one server."""

from __future__ import annotations

from dataclasses import dataclass

from typer import Argument, Option

from goalward.cli.app import command
from goalward.cli.console import Spinner, Terminal
from goalward.cli.serving import ServingOptions

__all__ = ["ServeOptions", "serve"]


@dataclass(frozen=True)
class ServeOptions(ServingOptions):
    """What `goalward serve` takes."""

    studies: list[str] = Argument(
        ..., metavar="STUDY...", help="labels.db, or postgresql://user@host/database."
    )
    by: str = Option("me", help="Your name.")


@command(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve studies that are there on one page, each below a path of its own.

    A list says how far each is, and who is labelling. A study that cannot be opened is said there,
    and keeps nobody from the others.

    Example: `goalward serve reviews.labels.db mails.labels.db`
    """
    from goalward.server import House
    from goalward.server import serve as page

    with Spinner() as tick:
        house = House(options.studies, tick)
    with house:
        for name, trouble in house.troubles.items():
            Terminal(stderr=True).print(f"{name} is not served. {trouble}", style="yellow")
        page(house, by=options.by, **options.served)
