"""Tables larger than memory, kept on disk."""
