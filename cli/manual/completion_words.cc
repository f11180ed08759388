#include "cli/manual/completion_words.h"

#include <algorithm>

#include "cli/program/root.h"

namespace rivulet {
namespace {

// The first words of a help text, up to the begin of an explanation.
std::string ShortHelp(std::string_view help) {
  for (const std::string_view end : {"; ", ". ", " [", "\n"}) help = help.substr(0, help.find(end));
  if (help.ends_with('.')) help.remove_suffix(1);
  return std::string(help);
}

std::vector<std::string> SplitWords(std::string_view choices) {
  std::vector<std::string> words;
  while (!choices.empty()) {
    const std::string_view word = choices.substr(0, choices.find('|'));
    choices.remove_prefix(std::min(choices.size(), word.size() + 1));
    // "gpu:N" is no word but a pattern.
    if (std::ranges::none_of(word, [](char c) { return c >= 'A' && c <= 'Z'; })) words.emplace_back(word);
  }
  return words;
}

// The kind of a value, by its name in the help.
Follows FollowsOf(std::string_view value_name) {
  const auto begins = [&](std::string_view text) { return value_name.starts_with(text); };
  if (begins("SCENARIO")) return Follows::kScenarios;
  if (begins("RUN") && !begins("RUNS"))
    return value_name.find('.') == std::string_view::npos ? Follows::kRuns : Follows::kFiles;
  if (begins("KEY=")) return Follows::kKeys;
  if (begins("DIR")) return Follows::kFolders;
  if (begins("FILE") || begins("PATH") || value_name.find('.') != std::string_view::npos) return Follows::kFiles;
  if (value_name.find('|') != std::string_view::npos) return Follows::kWords;
  return Follows::kAnything;
}

CompletedCommand Completed(const Command& command, const std::string& path) {
  CompletedCommand completed{.path = path};
  for (const Command* child : ShownSubcommands(command))
    completed.subcommands.push_back({child->name, ShortHelp(child->summary)});
  for (const Argument& argument : command.arguments) {
    if (!IsPositional(argument)) {
      const Follows follows = TakesValue(argument) ? FollowsOf(argument.value_name) : Follows::kNothing;
      completed.options.push_back(
          {argument.name, ShortHelp(argument.help), follows,
           follows == Follows::kWords ? SplitWords(argument.value_name) : std::vector<std::string>()});
    } else if (completed.argument == Follows::kNothing) {
      completed.argument = FollowsOf(argument.name);
      if (completed.argument == Follows::kAnything) completed.argument = Follows::kFiles;
    }
  }
  for (const CommonOption& common : CommonOptionsOf(path))
    completed.options.push_back({common.name, ShortHelp(common.help),
                                 common.value_name[0] == '\0' ? Follows::kNothing : FollowsOf(common.value_name)});
  return completed;
}

void AddCompleted(const Command& command, const std::string& path, std::vector<CompletedCommand>& commands) {
  commands.push_back(Completed(command, path));
  for (const Command* child : ShownSubcommands(command)) AddCompleted(*child, path + " " + child->name, commands);
}

}  // namespace

std::string_view Name(Follows follows) {
  static constexpr std::string_view kNames[] = {"nothing",   "anything", "files", "folders",
                                                "scenarios", "runs",     "keys",  "words"};
  return kNames[static_cast<size_t>(follows)];
}

std::vector<CompletedCommand> CompletedCommands() {
  RootArguments arguments;
  std::vector<CompletedCommand> commands;
  const Command root = RootCommand(&arguments);
  AddCompleted(root, root.name, commands);
  AddCompleted(ClientRoot(&arguments), kClientProgram, commands);
  return commands;
}

}  // namespace rivulet
