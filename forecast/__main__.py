"""The console command `forecast`: `forecast train attention=linear` is `python -m forecast.train attention=linear`.

It also prints scripts that complete it in bash, zsh and fish: the name of the command, then its keys and options. Hydra
lists these for bash; the other shells ask for the same list. Imports no torch.
"""

import ast
import difflib
import os
import pkgutil
import runpy
import sys
from pathlib import Path

import forecast

SHELLS = ("bash", "zsh", "fish")

HOW = 'eval "$(forecast completion bash)"; zsh: the same with zsh; fish: forecast completion fish | source'


def main() -> None:
    """Run the command that the first argument names, or print help, the version or the script for completion."""
    name, *arguments = sys.argv[1:] or ["--help"]
    commands = list_commands()
    if name in ("--help", "-h"):
        print(describe(commands))
    elif name == "--version":
        print(f"forecast {forecast.__version__}")
    elif name == "completion" and arguments and arguments[0] in SHELLS:
        script = Path(__file__).with_name("cli") / f"completion.{arguments[0]}"
        print(script.read_text("utf-8").replace("COMMANDS", " ".join(commands)), end="")
    elif name in commands:
        # as with `python -m`: modules in the current folder can be named in a configuration
        sys.path.insert(0, os.getcwd())
        sys.argv[1:] = arguments
        runpy.run_module(f"forecast.{name}", run_name="__main__", alter_sys=True)
    else:
        print(f"error: {refuse(name, commands)}", file=sys.stderr)
        sys.exit(2)


def list_commands() -> dict[str, str]:
    """The commands, which are the modules of the package with a `__main__` part, and what each is for."""
    found = {}
    for module in pkgutil.iter_modules(forecast.__path__):
        if not module.ispkg and module.name not in ("api", "__main__"):
            source = Path(forecast.__path__[0], f"{module.name}.py").read_text("utf-8")
            purpose = ast.get_docstring(ast.parse(source)) or ""
            found[module.name] = purpose.partition(": `")[0]
    return found


def describe(commands: dict[str, str]) -> str:
    width = max(map(len, commands))
    lines = "\n".join(f"  {name:<{width}}  {purpose}" for name, purpose in commands.items())
    usage = "usage: forecast COMMAND KEY=VALUE ...   forecast COMMAND --help   forecast --version"
    return f"{usage}\n\n{lines}\n\nCompletion in bash: {HOW}"


def refuse(name: str, commands: dict[str, str]) -> str:
    if name == "completion":
        return f"forecast completion {'|'.join(SHELLS)} prints a script; bash: {HOW}"
    similar = difflib.get_close_matches(name, commands, 1)
    hint = f"did you mean {similar[0]}?" if similar else f"one of {', '.join(commands)}"
    return f"forecast {name}: there is no such command; {hint}"


if __name__ == "__main__":
    main()
