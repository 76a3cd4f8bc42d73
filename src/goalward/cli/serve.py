"""Several studies: which there are, and all of them in one server."""

from __future__ import annotations

from dataclasses import dataclass

from typer import Argument, Option

from goalward.cli.app import AsJson, app, command
from goalward.cli.console import Spinner, Terminal, reply
from goalward.cli.serving import ServingOptions

__all__ = ["ServeOptions", "serve", "studies"]


@dataclass(frozen=True)
class ServeOptions(ServingOptions):
    """What `goalward serve` takes."""

    studies: list[str] = Argument(
        ..., metavar="STUDY...", help="labels.db, a folder, or postgresql://user@host/database."
    )
    by: str = Option("me", help="Your name.")


@command(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve studies that are there on one page, each below a path of its own.

    A list says how far each is, and who is labelling. A study that cannot be opened is said there,
    and keeps nobody from the others.

    Example: `goalward serve reviews.labels.db mails.labels.db`
    """
    from goalward.studio.server import House
    from goalward.studio.server import serve as page

    with Spinner() as tick:
        house = House(options.studies, tick)
    with house:
        for name, trouble in house.troubles.items():
            Terminal(stderr=True).print(f"{name} is not served. {trouble}", style="yellow")
        page(house, by=options.by, **options.served)


@app.command()
def studies(
    place: str = Argument(..., help="A folder, or postgresql://user@host/database."),
    as_json: AsJson = False,
) -> None:
    """List the studies of a database or a folder, by the addresses that other commands take.

    Example: `goalward studies postgresql://ann@db.example.org/labels`
    """
    from goalward.studio.store.places import shown
    from goalward.studio.store.store import studies_at

    found = [shown(one) for one in studies_at(place)]
    reply("\n".join(found) or "There is none.", found, as_json=as_json)
