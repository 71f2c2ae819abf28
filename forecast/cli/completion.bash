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
