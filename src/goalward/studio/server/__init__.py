"""The labelling page and the HTTP interface under it, over one study."""

from goalward.core.extras import needing

with needing("The labelling page (unlike --terminal)"):
    from goalward.studio.server.app import create_app, create_house
    from goalward.studio.server.house import House
    from goalward.studio.server.keys import Keys
    from goalward.studio.server.outside import Outside
    from goalward.studio.server.serve import serve
    from goalward.studio.server.served_study import ServedStudy

__all__ = ["House", "Keys", "Outside", "ServedStudy", "create_app", "create_house", "serve"]
