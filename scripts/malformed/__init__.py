"""Malformed files and settings, each with what the commands say of it."""
