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
