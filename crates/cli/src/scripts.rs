//! Scripts that make shells complete our lines, by asking the program itself: see `complete.rs`.
//!
//! A shell has one completion for a command. So the script of a program within the binary (`stele ctl`) completes the
//! other ones too: `INNER`, and `bench`, whose script has another author, if that was loaded before.

use crate::table::Program;

/// The programs within one binary that complete their lines alike.
const INNER: &str = "ctl utl";

/// The script for a shell.
pub fn script(program: Program, shell: &str) -> Option<String> {
    let script = match shell {
        "bash" => BASH,
        "zsh" => ZSH,
        "fish" => FISH,
        "powershell" => POWERSHELL,
        _ => return None,
    };
    // The word that a shell sees at the beginning of the line, and what may follow it to name the program.
    let (command, inner) = match program.name.split_once(' ') {
        Some((command, _)) => (command, INNER),
        None => (program.name, ""),
    };
    Some(script.replace("@COMMAND@", command).replace("@INNER@", inner))
}

const BASH: &str = r#"# bash completion for @COMMAND@ @INNER@
_@COMMAND@_complete() {
    local words=("${COMP_WORDS[@]:0:COMP_CWORD+1}") programs="@INNER@" inner="" line
    if [ -n "$programs" ]; then
        if [ "$COMP_CWORD" -eq 1 ]; then
            COMPREPLY=($(compgen -W "$programs bench server" -- "${words[1]}"))
            return
        fi
        inner="${words[1]}"
        case " $programs " in
            *" $inner "*) words=("${words[0]}" "${words[@]:2}") ;;
            *)
                COMPREPLY=()
                [ "$inner" = bench ] && declare -F _@COMMAND@ >/dev/null && _@COMMAND@ "$@"
                return
                ;;
        esac
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
_@COMMAND@_complete() {
    local inner="" line directive=0
    local -a programs before proposals
    programs=(@INNER@)
    before=("${(@)words[2,CURRENT]}")
    if (( ${#programs} )); then
        if (( CURRENT == 2 )); then
            compadd -- $programs bench server
            return
        fi
        inner="${words[2]}"
        if (( ! ${programs[(Ie)$inner]} )); then
            [[ "$inner" == bench ]] && (( ${+functions[_@COMMAND@]} )) && _@COMMAND@ "$@"
            return
        fi
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
compdef _@COMMAND@_complete @COMMAND@
"#;

const FISH: &str = r#"# fish completion for @COMMAND@ @INNER@
function __@COMMAND@_proposals
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l program $before[1]
    set -e before[1]
    set -l programs @INNER@
    set -l inner
    if test (count $programs) -gt 0
        if test (count $before) -eq 0
            printf '%s\n' $programs bench server
            return
        end
        set inner $before[1]
        contains -- "$inner" $programs; or return
        set -e before[1]
    end
    set -l lines ($program $inner __complete $before "$current" 2>/dev/null)
    set -l proposals (string match -v -r '^:' -- $lines)
    if test (count $proposals) -gt 0
        printf '%s\n' $proposals
    else if contains -- :0 $lines
        __fish_complete_path "$current"
    end
end
complete -c @COMMAND@ -f -a '(__@COMMAND@_proposals)'
"#;

const POWERSHELL: &str = r#"# powershell completion for @COMMAND@ @INNER@
Register-ArgumentCompleter -Native -CommandName '@COMMAND@' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })
    $program = $words[0]
    $skip = 1
    $programs = @('@INNER@' -split ' ' | Where-Object { $_ })
    $inner = @()
    if ($programs.Count -gt 0) {
        if ($words.Count -lt 2 -or $programs -notcontains $words[1]) { return }
        $inner = @($words[1])
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
