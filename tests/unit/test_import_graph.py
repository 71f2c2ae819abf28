"""The structure of `forecast/`: imports point down, a file at the top is a command, functions and modules are short."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "forecast"
COMMANDS = {
    "backtest", "benchmark", "check", "compare", "convert", "dashboard", "evaluate", "explain", "export", "monitor",
    "predict", "serve", "train",
}  # fmt: skip
LAYERS = [  # a part imports from lower layers only, and nothing of its neighbours in the same layer
    {"attention", "system"}, {"checkpoints", "data", "models", "runs"}, {"cli", "linear"}, {"evaluation"},
    {"reports"}, {"training"}, {"inference"}, {"tools"}, {*COMMANDS}, {"api"}, {"__init__"}, {"__main__"},
]  # fmt: skip
LAYER = {part: number for number, layer in enumerate(LAYERS) for part in layer}
ONLY = {"attention": set(), "data": {"system"}, "models": {"attention"}}  # narrower than the layers
FUNCTION_LINES, MODULE_LINES = 60, 500


def modules() -> dict[str, Path]:
    """Every module's file by its dotted name below `forecast`; a folder's __init__ has the folder's name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def source(name: str) -> str:
    return MODULES[name].read_text("utf-8")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(source(name))


def statements(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, []))


def part(name: str) -> str:
    return name.split(".")[0]


def imported(name: str) -> Iterator[str]:
    """The modules below `forecast` that a module imports anywhere, or names where it calls `import_module`."""
    calls_import_module = "import_module" in source(name)
    for node in ast.walk(tree(name)) if calls_import_module else statements(tree(name).body):
        if isinstance(node, ast.Import):
            full = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"forecast.{name} line {node.lineno}: a relative import"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            full = [target for target in full if target != "forecast.__version__"]  # Python runs __init__ first anyway
        elif isinstance(node, ast.Constant):
            full = [str(node.value).partition(":")[0]]
            full = [target for target in full if target.removeprefix("forecast.") in MODULES]
        else:
            continue
        for target in full:
            if target.split(".")[0] == "forecast":
                parts = target.split(".")[1:]
                while parts and ".".join(parts) not in MODULES:
                    parts = parts[:-1]
                yield ".".join(parts) or "__init__"


@cache
def all_imports() -> set[tuple[str, str]]:
    """(importing module, imported module)."""
    return {(name, target) for name in MODULES for target in imported(name) if target != name}


def is_upward(name: str, target: str) -> bool:
    here, there = part(name), part(target)
    if here == there:
        return False
    return LAYER[there] >= LAYER[here] or there not in ONLY.get(here, {there})


def test_a_file_at_the_top_is_a_command_and_a_folder_is_a_part() -> None:
    files = {path.stem for path in PACKAGE.glob("*.py")}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert files == {"__init__", "__main__", "api", *COMMANDS}
    assert files | folders == set(LAYER)


def test_imports_point_down() -> None:
    assert {pair for pair in all_imports() if is_upward(*pair)} == set()


def test_there_are_no_import_cycles() -> None:
    """Of modules in one part; a cycle of parts has an upward import."""
    targets: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, target in all_imports():
        if part(name) == part(target):
            targets[name].add(target)
    TopologicalSorter(targets).prepare()  # raises CycleError


def test_functions_are_short() -> None:
    long = {
        f"{name}.{node.name}"
        for name in MODULES
        for node in statements(tree(name).body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    }
    assert long == set()


def test_modules_are_short() -> None:
    lines = {name: len(source(name).splitlines()) for name in MODULES}
    assert {name for name, count in lines.items() if count > MODULE_LINES} == set()
