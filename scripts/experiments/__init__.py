"""Experiments whose results the documentation shows: `scripts/reproduce TABLE`."""
