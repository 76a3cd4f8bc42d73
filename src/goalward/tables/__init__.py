"""A person's own tables: read, turned into features, and written back."""

from goalward.core.extras import needing

with needing("A table"):
    from goalward.tables.encoder import Encoder
    from goalward.tables.loaded import Loaded
    from goalward.tables.read import read_table
    from goalward.tables.table import Table
    from goalward.tables.write import write_table

__all__ = ["Encoder", "Loaded", "Table", "read_table", "write_table"]
