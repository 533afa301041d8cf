//! Scripts that make shells complete our lines, by asking the program itself: see `complete.rs`.

use crate::table::Program;

/// The script for a shell.
pub fn script(program: Program, shell: &str) -> Option<String> {
    let script = match shell {
        "bash" => BASH,
        "zsh" => ZSH,
        "fish" => FISH,
        "powershell" => POWERSHELL,
        _ => return None,
    };
    // The word that a shell sees at the beginning of the line, and how many words of the line name the program.
    let (command, inner) = program.name.split_once(' ').unwrap_or((program.name, ""));
    Some(script.replace("@COMMAND@", command).replace("@INNER@", inner))
}

const BASH: &str = r#"# bash completion for @COMMAND@ @INNER@
_@COMMAND@_complete() {
    local words=("${COMP_WORDS[@]:0:COMP_CWORD+1}") inner="@INNER@" line
    if [ -n "$inner" ]; then
        if [ "$COMP_CWORD" -eq 1 ]; then
            COMPREPLY=($(compgen -W "$inner server" -- "${words[1]}"))
            return
        fi
        [ "${words[1]}" = "$inner" ] || return
        words=("${words[0]}" "${words[@]:2}")
    fi
    # Bash makes words of their own from "=" in "--flag=value".
    local current="${words[${#words[@]}-1]}" last=$((${#words[@]} - 1))
    if [ "$current" = "=" ]; then
        words=("${words[@]:0:last-1}" "${words[last-1]}=")
    elif [ "$last" -gt 1 ] && [ "${words[last-1]}" = "=" ]; then
        words=("${words[@]:0:last-2}" "${words[last-2]}=$current")
    fi
    [ "$current" = "=" ] && current=""
    local directive=0
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            --*=*) COMPREPLY+=("${line#*=}") ;;
            *) COMPREPLY+=("$line") ;;
        esac
    done < <("${words[0]}" $inner __completeNoDesc "${words[@]:1}" 2>/dev/null)
    if [ ${#COMPREPLY[@]} -eq 0 ] && [ "$directive" = 0 ]; then
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -F _@COMMAND@_complete @COMMAND@
"#;

const ZSH: &str = r#"#compdef @COMMAND@
# zsh completion for @COMMAND@ @INNER@
_@COMMAND@() {
    local inner="@INNER@" line directive=0
    local -a before proposals
    before=("${(@)words[2,CURRENT]}")
    if [[ -n "$inner" ]]; then
        if (( CURRENT == 2 )); then
            compadd -- "$inner" server
            return
        fi
        [[ "${words[2]}" == "$inner" ]] || return
        before=("${(@)words[3,CURRENT]}")
    fi
    for line in "${(@f)$(${words[1]} $inner __complete "${(@)before}" 2>/dev/null)}"; do
        case "$line" in
            :*) directive="${line#:}" ;;
            "") ;;
            *) line="${line//:/\\:}"; proposals+=("${line/$'\t'/:}") ;;
        esac
    done
    if (( ${#proposals} )); then
        _describe 'proposal' proposals
    elif [[ "$directive" == 0 ]]; then
        _files
    fi
}
compdef _@COMMAND@ @COMMAND@
"#;

const FISH: &str = r#"# fish completion for @COMMAND@ @INNER@
function __@COMMAND@_proposals
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l program $before[1]
    set -e before[1]
    set -l inner @INNER@
    if test -n "$inner"
        if test (count $before) -eq 0
            printf '%s\n' $inner server
            return
        end
        test "$before[1]" = "$inner"; or return
        set -e before[1]
    end
    $program $inner __complete $before "$current" 2>/dev/null | string match -v -r '^:'
end
complete -c @COMMAND@ -f -a '(__@COMMAND@_proposals)'
"#;

const POWERSHELL: &str = r#"# powershell completion for @COMMAND@ @INNER@
Register-ArgumentCompleter -Native -CommandName '@COMMAND@' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })
    $program = $words[0]
    $skip = 1
    $inner = @('@INNER@' | Where-Object { $_ })
    if ($inner.Count -gt 0) {
        if ($words.Count -lt 2 -or $words[1] -ne $inner[0]) { return }
        $skip = 2
    }
    $before = @($words | Select-Object -Skip $skip)
    if ($wordToComplete -and $before.Count -gt 0) {
        $before = @($before | Select-Object -SkipLast 1)
    }
    & $program @inner '__complete' @before "$wordToComplete" 2>$null | Where-Object { $_ -notmatch '^:' } |
        ForEach-Object {
            $word, $about = $_ -split "`t", 2
            if (-not $about) { $about = $word }
            [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
        }
}
"#;
