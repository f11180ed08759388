// rivulet completion: a script by which bash completes commands, options and files.
#include "cli/program/root.h"

namespace rivulet {
namespace {

// Only words of bash itself: a script that is read at every login starts no other program.
constexpr std::string_view kBefore = R"sh(# bash completion of rivulet; made by 'rivulet completion'.
_rivulet() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[0]##*/} subcommands='' flags='' values='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)sh";
constexpr std::string_view kBetween = R"sh() command="$command ${COMP_WORDS[i]}" ;;
    esac
  done
  case $command in
)sh";
constexpr std::string_view kAfter = R"sh(  esac
  COMPREPLY=()
  if [[ " $values " == *" $previous "* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags $values" -- "$current")
  elif [[ -n $subcommands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}
complete -o filenames -F _rivulet rivulet rivulet-client
)sh";

void AddCommand(const Command& command, const std::string& path, std::string& paths, std::string& cases) {
  if (path.find(' ') != std::string::npos)
    paths += fmt::format("{}\"{}\"", paths.empty() ? "      " : " | \\\n      ", path);
  std::string subcommands, flags, values;
  const auto add = [](std::string& list, std::string_view word) {
    list += fmt::format("{}{}", list.empty() ? "" : " ", word);
  };
  for (const Command* child : ShownSubcommands(command)) add(subcommands, child->name);
  for (const Argument& argument : command.arguments)
    if (!IsPositional(argument)) add(TakesValue(argument) ? values : flags, argument.name);
  for (const CommonOption& common : CommonOptionsOf(path))
    add(common.value_name[0] != '\0' ? values : flags, common.name);
  cases += fmt::format("    \"{}\") subcommands='{}' flags='{}' values='{}' ;;\n", path, subcommands, flags, values);
  for (const Command* child : ShownSubcommands(command)) AddCommand(*child, path + " " + child->name, paths, cases);
}

Status PrintCompletion() {
  RootArguments arguments;
  const Command root = RootCommand(&arguments);
  std::string paths, cases;
  AddCommand(root, root.name, paths, cases);
  AddCommand(ClientRoot(&arguments), kClientProgram, paths, cases);
  fmt::print("{}{}{}{}{}", kBefore, paths, kBetween, cases, kAfter);
  return absl::OkStatus();
}

const RegisterCommand kCompletion(96, [] {
  Command command{.name = "completion",
                  .summary = "Print a bash completion script for commands and options.",
                  .example = "rivulet completion >~/.local/share/bash-completion/completions/rivulet"};
  command.run = PrintCompletion;
  return command;
});

}  // namespace
}  // namespace rivulet
