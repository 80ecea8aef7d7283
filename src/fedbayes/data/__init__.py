"""Data: raw files to checked arrays, arrays to one index set per client, both pinned by checksums."""
