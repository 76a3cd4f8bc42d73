"""The labelling page and the HTTP interface under it."""

from goalward.core.arguments import needing

with needing("The labelling page (unlike --terminal)"):
    from goalward.studio.server.app import create_app
    from goalward.studio.server.auth import Auth
    from goalward.studio.server.security import ProxyConfig
    from goalward.studio.server.serve import serve
    from goalward.studio.server.served_study import ServedStudy, StudyList

__all__ = ["Auth", "ProxyConfig", "ServedStudy", "StudyList", "create_app", "serve"]
