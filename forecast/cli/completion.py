"""Scripts that complete the console command `forecast` in bash, zsh and fish. Imports no torch.

They complete the name of the command, then its keys and options. Hydra lists these for bash; the other shells ask for
the same list.
"""

from collections.abc import Iterable

BASH = """\
_forecast() {
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "COMMANDS" -- "${COMP_WORDS[1]}"))
    else
        local typed="${COMP_LINE#*"${COMP_WORDS[1]}"}"
        local choices=$(COMP_LINE="forecast${typed}" forecast "${COMP_WORDS[1]}" -sc query=bash 2> /dev/null)
        COMPREPLY=($(compgen -W "$choices" -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
complete -o nospace -o default -F _forecast forecast
"""

ZSH = """\
_forecast() {
    if (( CURRENT == 2 )); then
        compadd -- COMMANDS
    else
        local typed="${(j: :)words[3,CURRENT]}"
        local choices=$(COMP_LINE="forecast ${typed}" forecast "$words[2]" -sc query=bash 2> /dev/null)
        compadd -Q -S '' -- ${=choices} || { compset -P '*='; _files }
    fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _forecast forecast
"""

FISH = """\
function __forecast_choices
    set -l words (commandline -opc) (commandline -ct)
    set -l typed (string join ' ' -- $words[3..-1])
    set -l choices (COMP_LINE="forecast $typed" forecast $words[2] -sc query=bash 2> /dev/null | string split -n ' ')
    if set -q choices[1]
        printf '%s\\n' $choices
    else if set -l parts (string split -m 1 = -- $words[-1])
        string replace -r '^' "$parts[1]=" -- (__fish_complete_path $parts[2])
    end
end
complete -c forecast -n 'test (count (commandline -opc)) -eq 1' -f -a 'COMMANDS'
complete -c forecast -n 'test (count (commandline -opc)) -gt 1' -f -a '(__forecast_choices)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

HOW = 'eval "$(forecast completion bash)"; zsh: the same with zsh; fish: forecast completion fish | source'
"""How completion is switched on in each shell."""


def make_script(shell: str, commands: Iterable[str]) -> str:
    """Return the script for a shell, one of `SCRIPTS`."""
    return SCRIPTS[shell].replace("COMMANDS", " ".join(commands))
