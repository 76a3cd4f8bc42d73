"""The labelling page and the HTTP interface under it, over one study."""

from goalward.core.extras import needing

with needing("The labelling page (unlike --terminal)"):
    from goalward.server.app import create_app, create_house
    from goalward.server.house import House
    from goalward.server.keys import Keys
    from goalward.server.outside import Outside
    from goalward.server.serve import serve
    from goalward.server.served_study import ServedStudy

__all__ = ["House", "Keys", "Outside", "ServedStudy", "create_app", "create_house", "serve"]
