"""What every room stands on: arrays, rows, labels, files, compiled loops."""

__all__: list[str] = []
