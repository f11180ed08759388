// rivulet completion: a shell script that completes commands, options, files, and candidates of `rivulet complete`.
#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/manual/completion_words.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const std::vector<CompletedCommand>& commands);
};
constexpr Shell kShells[] = {{"bash", BashCompletion}, {"zsh", ZshCompletion}, {"fish", FishCompletion}};

Status PrintCompletion(const std::string& name) {
  const auto shell = std::ranges::find(kShells, name, [](const Shell& one) { return std::string_view(one.name); });
  if (shell == std::end(kShells))
    return UsageError("there is no completion for '{}'; SHELL is bash, zsh or fish", Shortened(name));
  fmt::print("{}", shell->script(CompletedCommands()));
  return absl::OkStatus();
}

const RegisterCommand kCompletion(96, [] {
  auto shell = std::make_shared<std::string>("bash");
  Command command{.name = "completion",
                  .summary = "Print a completion script for bash, zsh or fish: commands, options, runs and keys.",
                  .example =
                      "rivulet completion >~/.local/share/bash-completion/completions/rivulet\n"
                      "  rivulet completion zsh >~/.zfunc/_rivulet\n"
                      "  rivulet completion fish >~/.config/fish/completions/rivulet.fish"};
  command.OptionalPositional("SHELL", shell.get(), "bash, zsh or fish [bash]");
  command.run = [shell] { return PrintCompletion(*shell); };
  return command;
});

}  // namespace
}  // namespace rivulet
