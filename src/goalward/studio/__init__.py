"""Studies of people: tables, store, advice, the page and its neighbours."""

__all__: list[str] = []
