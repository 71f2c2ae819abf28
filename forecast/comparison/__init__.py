"""From run folders to one page that compares them: read, group, test, draw. Imports no torch."""
