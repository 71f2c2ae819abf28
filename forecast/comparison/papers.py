"""The small table of a comparison in Markdown and in LaTeX, ready for a paper."""

import re
from collections.abc import Iterable, Iterator

from forecast.comparison.tables import (
    COSTS,
    LEVEL,
    SCORES,
    TIED,
    UNTOLD,
    best_of,
    entries,
    leads,
    number,
    probability,
    values,
    verdict,
)
from forecast.comparison.tasks import Entry, Task
from forecast.sweep import mean_and_deviation

SHOWN, SHOWN_COSTS = SCORES[:3], COSTS[:3]
HEADINGS = [
    "variant", "seeds", *(c.heading for c in SHOWN), "p (vs best)", *(c.heading for c in SHOWN_COSTS)
]  # fmt: skip
NOTE = (
    "Mean and deviation over seeds; bold: the best variant of each column; {mark}: not told apart from the "
    f"variant with the lowest MSE at the {100 * LEVEL:.0f} {{percent}} level (Diebold-Mariano test for overlapping "
    "windows, p-values adjusted by Bonferroni); italics: baselines."
)


def lines(task: Task) -> Iterator[tuple[Entry, list[tuple[str, bool]]]]:
    """Each entry and its cells after name and seeds: the text, and whether it is the best variant's of the column."""
    best = {column: best_of(task, column) for column in (*SHOWN, *SHOWN_COSTS)}
    for entry in entries(task):
        cells = []
        for column in (*SHOWN, *SHOWN_COSTS):
            mean, deviation = mean_and_deviation(values(task, entry, column))
            text = number(mean, deviation) if column in SHOWN else number(mean)
            cells.append((text, leads(task, entry, mean, best[column])))
        p = "–" if entry is task.best else probability(task.differences[entry.name].adjusted)
        yield entry, [*cells[: len(SHOWN)], (p, False), *cells[len(SHOWN) :]]


def is_tied(task: Task, entry: Entry) -> bool:
    return verdict(task, entry) in (TIED, UNTOLD)


def seeds(entry: Entry) -> str:
    return "–" if entry.is_baseline else str(len(entry.runs))


def markdown(tasks: Iterable[Task]) -> str:
    parts = []
    for task in tasks:
        table = [f"| {' | '.join(HEADINGS)} |", "| --- " + "| ---: " * (len(HEADINGS) - 1) + "|"]
        for entry, found in lines(task):
            name = in_markdown(entry.name)
            cells = [f"**{text}**" if is_best else text for text, is_best in found]
            if entry.is_baseline:
                name = f"*{name}*"
            if is_tied(task, entry):
                cells[0] += " †"
            table.append(f"| {' | '.join([name, seeds(entry), *cells])} |".replace("| < 0", "| &lt; 0"))
        note = NOTE.format(mark="†", percent="%")
        parts.append("\n".join([f"## {in_markdown(task.title)}", "", *table, "", note]))
    return "\n\n".join(parts) + "\n"


def latex(tasks: Iterable[Task]) -> str:
    """Tables in the style of booktabs."""
    parts = [r"% Needs \usepackage{booktabs}"]
    for task in tasks:
        body = []
        for entry, found in lines(task):
            name = in_latex(entry.name)
            cells = [
                rf"\textbf{{{in_latex(text)}}}" if is_best else in_latex(text) for text, is_best in found
            ]
            if entry.is_baseline:
                name = rf"\textit{{{name}}}"
            if is_tied(task, entry):
                cells[0] += r"$^\dagger$"
            body.append(f"    {' & '.join([name, in_latex(seeds(entry)), *cells])} \\\\")
        note = NOTE.format(mark=r"$^\dagger$", percent=r"\%")
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"  \centering",
                    rf"  \caption{{{in_latex(task.title)}. {note}}}",
                    rf"  \begin{{tabular}}{{l{'r' * (len(HEADINGS) - 1)}}}",
                    r"    \toprule",
                    f"    {' & '.join(map(in_latex, HEADINGS))} \\\\",
                    r"    \midrule",
                    *body,
                    r"    \bottomrule",
                    r"  \end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


def in_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~&])", r"\\\1", " ".join(text.split()))


IN_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "±": r"$\pm$", "−": "$-$", "–": "--", "·": r"$\cdot$", **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def in_latex(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(IN_LATEX.get(character, character) for character in " ".join(text.split()))
