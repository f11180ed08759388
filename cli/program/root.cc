#include "cli/program/root.h"

#include "cli/ca/commands.h"
#include "cli/run/client_command.h"

namespace rivulet {
namespace {

constexpr char kVersionHelp[] = "Print the version.";

}  // namespace

std::vector<CommonOption> CommonOptionsOf(std::string_view path) {
  if (path.starts_with(kClientProgram)) return {kQuietOption, kProgressOption, kVlogOption, kHelpOption};
  return {kQuietOption, kProgressOption, kVlogOption, kOpLibraryOption, kAlgorithmLibraryOption, kHelpOption};
}

void PrintVersion(std::string_view program) { fmt::print("{} {}\n", program, RIVULET_VERSION); }

Command ClientRoot(RootArguments* arguments) {
  Command client = ClientCommand();
  client.name = kClientProgram;
  constexpr std::string_view kWords = "rivulet client ";
  for (size_t at = 0; (at = client.example.find(kWords, at)) != std::string::npos;)
    client.example.replace(at, kWords.size() - 1, kClientProgram);
  client.Flag("--version", &arguments->version, kVersionHelp);
  Command request = CaRequestCommand();
  request.example = "rivulet-client request client/hospital-b";
  client.example += "\n  " + request.example;
  client.subcommands.push_back(std::move(request));
  Command verify = VerifyProofCommand();
  client.example += "\n  " + verify.example;
  client.subcommands.push_back(std::move(verify));
  return client;
}

Command RootCommand(RootArguments* arguments) {
  Command root{.name = "rivulet",
               .summary = "Federated learning: simulate, deploy and inspect.",
               .example = "rivulet simulate quickstart",
               .subcommands = RegisteredCommands()};
  root.Flag("--version", &arguments->version, kVersionHelp);
  Command help{
      .name = kHelpCommand,
      .summary = "Print the help of a command, or of scenario keys: help keys [PATTERN].",
      .example = "rivulet help runs show\n  rivulet help keys 'client.*'\n  rivulet help keys lr",
      .arguments = {{.name = "COMMAND", .target = &arguments->help_of, .help = "its words; none: all commands"}}};
  root.subcommands.insert(root.subcommands.end() - 1, std::move(help));  // before `version`
  return root;
}

std::vector<const Command*> ShownSubcommands(const Command& command) {
  std::vector<const Command*> shown;
  for (const Command& child : command.subcommands)
    if (!child.hidden) shown.push_back(&child);
  return shown;
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
  if (!command.subcommands.empty()) usage += command.run ? " [SUBCOMMAND]" : " SUBCOMMAND";
  return usage + " [OPTIONS]";
}

}  // namespace rivulet
