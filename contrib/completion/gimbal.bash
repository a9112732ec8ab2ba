# Completion of gimbal and gimbald for bash. It asks the commands themselves, so
# that it never knows other commands and options than they do. Install it as
# gimbal and as gimbald in /usr/share/bash-completion/completions, or source it.

# Options of a command line, each with a space and, where it takes one, the name
# of its value.
_gimbal_options() {
    "$@" --help 2>/dev/null |
        sed -nE 's/^ +(-([[:alnum:]]), )?(--[a-z0-9-]+)(\[[^]]*\])?( ([^ ]+))?  .*/\2 \3 \6/p' |
        while read -r short long value; do
            # Without a short one the first field is missing.
            [[ $short == --* ]] && value=$long long=$short short=''
            echo "$long $value"
            [[ -z $short ]] || echo "-$short $value"
        done
}

_gimbal_commands() { "$@" --help 2>/dev/null | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p'; }

_gimbal_policies() { "$1" policies list -P 2>/dev/null | sed -n '2,$s/|.*//p'; }

# Words for the value of an option, by its name.
_gimbal_values() {
    local gimbal=$1 command=$2 option=$3
    case $command/$option in
        status/--state | status/-s)
            echo RUNNING THROTTLED HELD PAUSED SWAPPED EVICTING COMPLETED FAILED EVICTED SUSPENDED ENDED ;;
        status/--format | status/-o) "$gimbal" status --helpformat 2>/dev/null ;;
        status/--units) echo K M G T P ;;
        timeline/--color) echo always never auto ;;
        top/--sort | top/-s)
            "$gimbal" top --help 2>/dev/null | sed -nE 's/.*--sort [A-Z]+ .*: ([a-z, ]+) .*/\1/p' | tr -d , ;;
        simulate/--policy) "$gimbal" simulate --help 2>/dev/null | sed -nE '/^(Baselines|Policies)/,$s/^  ([a-z-]+) .*/\1/p' ;;
        simulate/--cost) echo none muri ;;
        report/--jobs | report/-j) "$gimbal" status -n -P -X -o JobID 2>/dev/null ;;
        policies/--against) _gimbal_policies "$gimbal" ;;
        */--user | */-u | */--uid) compgen -u ;;
        notify/--signal) compgen -A signal SIG | sed 's/^SIG//' ;;
    esac
}

# Words that stand without an option.
_gimbal_arguments() {
    local gimbal=$1 command=$2 sub=$3
    case $command/$sub in
        policies/) _gimbal_commands "$gimbal" policies ;;
        policies/show | policies/explain) _gimbal_policies "$gimbal" ;;
        explain/* | timeline/* | pause/* | resume/* | evict/* | notify/* | release/*)
            "$gimbal" status -n -P -X -o JobID 2>/dev/null ;;
    esac
}

# The first of some words that is no option, and no option's value.
_gimbal_first_argument() {
    local options=$1 skip='' word
    shift
    for word; do
        if [[ -n $skip || $word == = ]]; then
            [[ $word == = ]] || skip=''
        elif [[ $word == -* ]]; then
            skip=$(awk -v option="$word" '$1 == option { print $2 }' <<<"$options")
        else
            echo "$word"
            return
        fi
    done
}

# The last part of a list with commas is completed, what is before it stays.
_gimbal_reply() {
    local word=$1 words=$2 before=''
    [[ $word != *,* ]] || before=${word%,*},
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "${word##*,}")
}

_gimbal_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_gimbal() {
    local gimbal=$1 word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} sub options value words
    COMPREPLY=()
    [[ $word != = ]] || word='' # --option=
    [[ $previous != = ]] || previous=${COMP_WORDS[COMP_CWORD - 2]}
    [[ ${COMP_WORDS[COMP_CWORD]} != = ]] || previous=${COMP_WORDS[COMP_CWORD - 1]}

    if ((COMP_CWORD == 1)) && [[ ${gimbal##*/} == gimbal ]]; then
        _gimbal_reply "$word" "$(_gimbal_commands "$gimbal") --help --version"
        return
    fi
    if [[ ${gimbal##*/} == gimbald ]]; then
        command=''
    fi
    options=$(_gimbal_options "$gimbal" ${command:+"$command"})
    sub=$(_gimbal_first_argument "$options" "${COMP_WORDS[@]:2:COMP_CWORD-2}")
    if [[ $command/$sub == policies/try ]]; then
        options=$(_gimbal_options "$gimbal" policies try)
    fi

    value=$(awk -v option="$previous" '$1 == option { print $2 }' <<<"$options")
    if [[ $previous == -* && -n $value ]]; then
        words=$(_gimbal_values "$gimbal" "$command" "$previous")
        if [[ -n $words ]]; then _gimbal_reply "$word" "$words"; else _gimbal_files "$word"; fi
        return
    fi
    if [[ $word == -* ]]; then
        _gimbal_reply "$word" "$(awk '$1 ~ /^--/ { print $1 }' <<<"$options")"
        return
    fi
    words=$(_gimbal_arguments "$gimbal" "$command" "$sub")
    if [[ -n $words ]]; then _gimbal_reply "$word" "$words"; else _gimbal_files "$word"; fi
}

complete -F _gimbal gimbal gimbald
