"""Arrays, rows, labels, files and compiled loops, shared by all packages."""

__all__: list[str] = []
