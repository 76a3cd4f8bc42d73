"""The labelling page and the HTTP interface under it, over one study."""

from goalward.core.extras import needing

with needing("The labelling page"):
    from goalward.server.app import create_app
    from goalward.server.guard import Keys
    from goalward.server.serve import serve

__all__ = ["Keys", "create_app", "serve"]
