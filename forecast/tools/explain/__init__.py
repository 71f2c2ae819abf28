"""Visualisation of attention on one window: implied attention maps, numbers, pictures and an HTML page."""
