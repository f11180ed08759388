#include "cli/root.h"

namespace rivulet {

Command RootCommand(bool* version) {
  Command root{.name = "rivulet",
               .summary = "Federated learning: simulate, deploy and inspect.",
               .example = "rivulet simulate simulations/scenarios/quickstart.toml",
               .subcommands = RegisteredCommands()};
  root.Flag("--version", version, "Print the version.");
  return root;
}

bool TakesValue(const Argument& argument) {
  return !std::holds_alternative<bool*>(argument.target) && !std::holds_alternative<int*>(argument.target);
}

std::string UsageOf(const Command& command, std::string_view path) {
  std::string usage(path);
  for (const Argument& argument : command.arguments) {
    if (!IsPositional(argument)) continue;
    usage += argument.required ? " " + argument.name : " [" + argument.name + "]";
    if (TakesSeveral(argument)) usage += " …";
  }
  if (!command.subcommands.empty()) usage += " SUBCOMMAND";
  return usage + " [OPTIONS]";
}

}  // namespace rivulet
