"""A person's own tables: read, turned into features, and written back."""

from goalward.core.arguments import needing

with needing("A table"):
    from goalward.studio.tables.cells import write_table
    from goalward.studio.tables.encoder import Encoder
    from goalward.studio.tables.read import read_table
    from goalward.studio.tables.table import Loaded, Table

__all__ = ["Encoder", "Loaded", "Table", "read_table", "write_table"]
