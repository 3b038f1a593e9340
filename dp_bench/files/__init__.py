"""Bytes on disk: atomic, checksummed, cached, locked. Knows nothing of privacy."""
