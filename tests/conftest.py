"""Check every shape in the package's signatures while the tests run, and only then."""

from jaxtyping import install_import_hook

install_import_hook("forecast", "beartype.beartype")
