// Completion for zsh, by its completion system (compinit).
#include "cli/manual/completion_words.h"
#include "engine/base/join.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

constexpr std::string_view kZshBefore = R"sh(#compdef rivulet rivulet-client
# zsh completion of rivulet; made by 'rivulet completion zsh'.

# Candidates that the program knows: tag, suffix, kind, word.
_rivulet_ask() {
  local tag=$1 suffix=$2 line program=${~words[1]}
  local -a candidates history
  shift 2
  [[ ${program:t} == rivulet ]] || return 1
  (( ${words[(I)--db]} )) && history=(--db "${words[${words[(I)--db]} + 1]}")
  for line in ${(f)"$("$program" complete "$@" $history 2>/dev/null)"}; do
    candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe -t "$tag" "$tag" candidates -S "$suffix"
}

_rivulet() {
  local command=${words[1]:t} current=${words[CURRENT]} previous=${words[CURRENT - 1]} kind=nothing value='' i
  local -a subcommands options choices
  for ((i = 2; i < CURRENT; ++i)); do
    case "$command ${words[i]}" in
)sh";
constexpr std::string_view kZshBetween = R"sh() command="$command ${words[i]}" ;;
    esac
  done
  case $command in
)sh";
constexpr std::string_view kZshAfter = R"sh(  esac
  case "$command $previous" in
)sh";
constexpr std::string_view kZshEnd = R"sh(  esac
  if [[ -n $value ]]; then
    kind=$value
  elif [[ $current == -* ]]; then
    _describe -t options option options
    return
  elif (( ${#subcommands} )); then
    _describe -t commands command subcommands
    return
  fi
  case $kind in
    files) _files ;;
    folders) _files -/ ;;
    scenarios) _rivulet_ask scenarios ' ' scenarios; _files ;;
    runs) _rivulet_ask runs ' ' runs ;;
    keys)
      if compset -P '*='; then
        _rivulet_ask values ' ' values "${current%%=*}"
      else
        _rivulet_ask keys '' keys
      fi
      ;;
    words) compadd -a choices ;;
  esac
}

# Loaded by compinit the file is the function, by whichever of its names; sourced it only defines it.
if [[ ${funcstack[1]} == (_rivulet|_rivulet-client) ]]; then
  _rivulet "$@"
else
  compdef _rivulet rivulet rivulet-client
fi
)sh";

// A word with its description in the form of _describe, in single quotes.
std::string ZshDescribed(std::string_view word, std::string_view about) {
  std::string text;
  const auto add = [&text](std::string_view part, bool escape_colons) {
    for (const char c : part) {
      if (c == '\'') {
        text += "'\\''";
      } else if (c == ':' && escape_colons) {
        text += "\\:";
      } else {
        text += c;
      }
    }
  };
  add(word, true);
  text += ':';
  add(about, false);
  return "'" + text + "'";
}

}  // namespace

std::string ZshCompletion(const std::vector<CompletedCommand>& commands) {
  std::string paths, cases, follow;
  for (const CompletedCommand& command : commands) {
    if (command.path.find(' ') != std::string::npos)
      paths += fmt::format("{}\"{}\"", paths.empty() ? "      " : " | \\\n      ", command.path);
    std::string subcommands, options;
    for (const CompletedWord& subcommand : command.subcommands)
      subcommands += fmt::format("\n        {}", ZshDescribed(subcommand.word, subcommand.about));
    for (const CompletedOption& option : command.options) {
      options += fmt::format("\n        {}", ZshDescribed(option.name, option.about));
      if (option.follows == Follows::kNothing) continue;
      follow +=
          fmt::format("    \"{} {}\") value={}{} ;;\n", command.path, option.name, Name(option.follows),
                      option.follows == Follows::kWords ? fmt::format(" choices=({})", Join(option.words, " ")) : "");
    }
    cases += fmt::format("    \"{}\")\n      kind={}\n      subcommands=({})\n      options=({})\n      ;;\n",
                         command.path, Name(command.argument), subcommands, options);
  }
  return fmt::format("{}{}{}{}{}{}{}", kZshBefore, paths, kZshBetween, cases, kZshAfter, follow, kZshEnd);
}

}  // namespace rivulet
