"""Error messages and warnings in one line on stderr, and exit statuses. Imports no torch."""

import errno
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hydra.errors import HydraException, InstantiationException
from omegaconf.errors import OmegaConfBaseException

from forecast.system import distributed
from forecast.system.errors import printable

USER_MISTAKES = (ValueError, OSError, HydraException, OmegaConfBaseException)


@contextmanager
def errors_in_one_line(on_interrupt: str = "") -> Iterator[None]:
    """Exit with status 2 and one line after a user's mistake, and with status 130 after Ctrl-C.

    Warnings are printed in one line each. Other errors, and all errors with HYDRA_FULL_ERROR=1, show a traceback.
    """
    show_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1" and distributed.is_first()
    warnings.showwarning = print_warning
    logging.raiseExceptions = False  # a log on a full disk must not hide the error message about it
    threading.excepthook = warn_of_thread
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises exceptions and prints nothing
    try:
        yield
    except BrokenPipeError:  # the reader of stdout closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if show_traceback or (not is_users_mistake(error) and distributed.is_first()):
            raise
        write_line(f"error: {one_line(error)}")
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"interrupted{on_interrupt}", file=sys.stderr)
        sys.exit(130)


def is_users_mistake(error: BaseException) -> bool:
    """Whether the user's input caused the error, for example an option that no constructor takes; else it is a bug."""
    if isinstance(error, TypeError):
        return "unexpected keyword argument" in str(error) or "required keyword-only argument" in str(error)
    return isinstance(error, USER_MISTAKES)


def one_line(error: BaseException) -> str:
    """The message in one line. For an error in a constructor, leave out the message of Hydra."""
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return one_line(error.__cause__)
    if isinstance(error, OSError) and error.strerror:
        file = (
            error.filename2 if error.errno == errno.ENOSPC and error.filename2 else error.filename
        )  # of a copy
        return printable(f"{file}: {error.strerror}" if file else error.strerror)
    return printable(str(error)) or type(error).__name__


def print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line, from the first process of a run only. Takes what `warnings.showwarning` takes."""
    if distributed.is_first():
        write_line(f"warning: {printable(str(message))}")


def print_each_once() -> Callable[..., None]:
    """Return a function like `print_warning` that prints each text once: Python forgets which ones it has shown."""
    said: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            print_warning(message)

    return show


def write_line(text: str) -> None:
    """Write a line to stderr in one call, so that lines of several threads do not mix."""
    print(f"{text}\n", end="", file=sys.stderr, flush=True)


def warn_of_thread(failed: threading.ExceptHookArgs) -> None:
    """Warn that a thread failed, such as that of TensorBoard on a full disk; the run continues."""
    if failed.exc_value is not None:
        print_warning(f"a background thread stopped: {one_line(failed.exc_value)}")
