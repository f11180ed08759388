// Completion for bash, 4.4 or later.
#include <map>

#include "cli/manual/completion_words.h"
#include "engine/base/join.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

// Only bash's own commands: a script that is read at every login must start no other program.
constexpr std::string_view kBashBefore = R"sh(# bash completion of rivulet; made by 'rivulet completion bash'.
# Candidates that the program knows: kind, word.
_rivulet_ask() {
  local program=${COMP_WORDS[0]/#\~\//$HOME/} candidate history=() i
  [[ ${program##*/} == rivulet ]] || return
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == --db ]] && history=(--db "${COMP_WORDS[i + 1]}")
  done
  "$program" complete "$@" "${history[@]}" 2>/dev/null | while IFS=$'\t' read -r candidate _; do
    printf '%s\n' "$candidate"
  done
}

_rivulet() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} key=''
  local command=${COMP_WORDS[0]##*/} subcommands='' options='' kind=nothing words='' i
  # '=' divides words: --set client.epochs=5 is four.
  if [[ $current == = ]]; then
    key=$previous current='' previous=${COMP_WORDS[COMP_CWORD - 2]}
  elif ((COMP_CWORD > 2)) && [[ $previous == = ]]; then
    key=${COMP_WORDS[COMP_CWORD - 2]} previous=${COMP_WORDS[COMP_CWORD - 3]}
  fi
  [[ $key == -* ]] && previous=$key key=''
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)sh";
constexpr std::string_view kBashBetween = R"sh() command="$command ${COMP_WORDS[i]}" ;;
    esac
  done
  case $command in
)sh";
constexpr std::string_view kBashAfter = R"sh(  esac
  local value=''
  case "$command $previous" in
)sh";
constexpr std::string_view kBashEnd = R"sh(  esac
  COMPREPLY=()
  if [[ -n $value ]]; then
    kind=$value
  elif [[ $current == -* ]]; then
    kind=words words=$options
  elif [[ -n $subcommands ]]; then
    kind=words words=$subcommands
  fi
  case $kind in
    files) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folders) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    scenarios) mapfile -t COMPREPLY < <(compgen -W "$(_rivulet_ask scenarios)" -- "$current"; compgen -f -- "$current") ;;
    runs) mapfile -t COMPREPLY < <(compgen -W "$(_rivulet_ask runs)" -- "$current") ;;
    keys)
      if [[ -n $key ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_rivulet_ask values "$key")" -- "$current")
      else
        mapfile -t COMPREPLY < <(compgen -W "$(_rivulet_ask keys)" -- "$current")
        compopt -o nospace 2>/dev/null
      fi
      ;;
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
  esac
}
complete -o filenames -F _rivulet rivulet rivulet-client
)sh";

}  // namespace

std::string BashCompletion(const std::vector<CompletedCommand>& commands) {
  std::string paths, cases;
  std::map<std::string, std::string> values;  // the places of each kind of value, as patterns
  for (const CompletedCommand& command : commands) {
    if (command.path.find(' ') != std::string::npos)
      paths += fmt::format("{}\"{}\"", paths.empty() ? "      " : " | \\\n      ", command.path);
    std::vector<std::string> subcommands, options;
    for (const CompletedWord& subcommand : command.subcommands) subcommands.push_back(subcommand.word);
    for (const CompletedOption& option : command.options) {
      options.push_back(option.name);
      if (option.follows == Follows::kNothing) continue;
      std::string what = fmt::format("value={}", Name(option.follows));
      if (option.follows == Follows::kWords) what += fmt::format(" words='{}'", Join(option.words, " "));
      std::string& places = values[what];
      places += fmt::format("{}\"{} {}\"", places.empty() ? "    " : " | \\\n    ", command.path, option.name);
    }
    cases += fmt::format("    \"{}\") subcommands='{}' options='{}' kind={} ;;\n", command.path, Join(subcommands, " "),
                         Join(options, " "), Name(command.argument));
  }
  std::string follow;
  for (const auto& [what, places] : values) follow += fmt::format("{}) {} ;;\n", places, what);
  return fmt::format("{}{}{}{}{}{}{}", kBashBefore, paths, kBashBetween, cases, kBashAfter, follow, kBashEnd);
}

}  // namespace rivulet
