"""Checkpoint files: written whole, read as data."""
