function __forecast_choices
    set -l words (commandline -opc) (commandline -ct)
    set -l typed (string join ' ' -- $words[3..-1])
    set -l choices (COMP_LINE="forecast $typed" forecast $words[2] -sc query=bash 2> /dev/null | string split -n ' ')
    if set -q choices[1]
        printf '%s\n' $choices
    else if set -l parts (string split -m 1 = -- $words[-1])
        string replace -r '^' "$parts[1]=" -- (__fish_complete_path $parts[2])
    end
end
complete -c forecast -n 'test (count (commandline -opc)) -eq 1' -f -a 'COMMANDS'
complete -c forecast -n 'test (count (commandline -opc)) -gt 1' -f -a '(__forecast_choices)'
