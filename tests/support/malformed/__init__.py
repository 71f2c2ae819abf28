"""Malformed files and settings, each with the message of the commands."""
