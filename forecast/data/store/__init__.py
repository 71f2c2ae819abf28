"""Tables and many series larger than memory, kept on disk."""
