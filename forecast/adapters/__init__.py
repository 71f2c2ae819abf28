"""Models of this package in the interfaces of other libraries."""
