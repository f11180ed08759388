// rivulet debug: a training step, or a graph, under a debugger.
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>

#include "cli/command.h"
#include "cli/debug/line_editor.h"
#include "cli/debug/shell.h"
#include "cli/debug/target.h"
#include "engine/base/file_system.h"

namespace rivulet {
namespace {

struct DebugOptions {
  DebugTargetOptions target;
  std::vector<std::string> commands;
  std::string script;
  std::optional<int64_t> memory;
  bool json = false;
};

// Lines of -c and of the script, in this order; '#' begins a comment.
StatusOr<std::deque<std::string>> ScriptLines(const DebugOptions& options) {
  std::deque<std::string> lines(options.commands.begin(), options.commands.end());
  if (options.script.empty()) return lines;
  RIVULET_ASSIGN_OR_RETURN(const std::string text, FileSystem::Default().ReadAll(options.script));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (const size_t first = line.find_first_not_of(" \t\r"); first != std::string::npos && line[first] != '#')
      lines.push_back(line.substr(0, line.find('\r')));
  }
  return lines;
}

Status Debug(const DebugOptions& options) {
  const bool scripted = !options.commands.empty() || !options.script.empty();
  RIVULET_ASSIGN_OR_RETURN(std::deque<std::string> lines, ScriptLines(options));
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<DebugTarget> target, LoadDebugTarget(options.target));
  const bool terminal = !scripted && isatty(STDIN_FILENO) != 0;
  DebugShellOptions shell_options;
  shell_options.json = options.json;
  shell_options.interactive = !scripted;
  if (options.memory) shell_options.memory_bytes = static_cast<size_t>(*options.memory);
  std::unique_ptr<DebugShell> shell;
  const CompleteFn complete = [&](std::string_view line, std::string_view word) {
    return shell->Completions(line, word);
  };
  const auto next = [&]() -> std::optional<std::string> {
    if (terminal) return ReadLine("rivulet> ", complete);
    if (!scripted) {
      std::string line;
      return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
    }
    if (lines.empty()) return std::nullopt;
    std::string line = std::move(lines.front());
    lines.pop_front();
    return line;
  };
  shell = std::make_unique<DebugShell>(*target, shell_options, next);
  if (!options.json) fmt::print("{}\n", target->title);
  if (terminal) fmt::print("nothing has run yet; 'run' runs a step, 'help' lists the commands\n");
  return shell->Run();
}

const RegisterCommand kDebug(55, [] {
  auto options = std::make_shared<DebugOptions>();
  Command command{.name = "debug",
                  .summary = "Run a client's training step, or a graph, under a debugger.",
                  .example =
                      "rivulet debug quickstart\n  rivulet debug scenario.toml --client client-00003 -c 'run -f "
                      "has_nan; lt -f has_nan'\n  rivulet debug mnist_cnn --training -c 'run; pt loss; lt -s time -r'"};
  command
      .Positional("SCENARIO.toml|GRAPH", &options->target.what,
                  "a scenario; or a graph: a preset's name, FILE.pb or FILE.pbtxt")
      .Repeated("-c", "COMMANDS", &options->commands, "run these commands instead of prompting; repeatable")
      .Option("--script", "FILE", &options->script, "run the commands of a file, one per line")
      .Option("--client", "ID", &options->target.client, "for a scenario: the client to train as [the first]")
      .Option("--round", "N", &options->target.round,
              "for a scenario: start with that round's model, after simulating the earlier rounds [1]", {1, 1'000'000})
      .Repeated("--set", "KEY=VALUE", &options->target.sets, "set a key of the scenario; repeatable")
      .Option("--batch", "N", &options->target.batch, "examples in a batch [the scenario's, or 10]", {1, 1'000'000})
      .Flag("--training", &options->target.training, "for a graph: add gradients and SGD")
      .Option("--loss", "TENSOR", &options->target.loss, "for a graph file: the tensor that training minimises [loss]")
      .Repeated("--fetch", "TENSOR", &options->target.fetches,
                "for a graph file: a tensor to compute [all without consumers]")
      .Repeated("--feed", "NAME=FILE.npy", &options->target.feeds, "for a graph: an input [small generated numbers]")
      .Option("--steps", "N", &options->target.steps, "for a graph: number of steps [1]", {1, 1'000'000})
      .Flag("--no-passes", &options->target.no_passes, "compile without passes: every node is a separate call")
      .Option("--memory", "BYTES", &options->memory, "memory for the values of one step's tensors [1 GiB]",
              {0, INT64_MAX})
      .Flag("--json", &options->json, "print JSON, one value per command");
  command.run = [options] { return Debug(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
