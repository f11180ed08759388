// Main function of a program. It parses the command line into a registered Command (cli/command.h) and runs that. The
// Status becomes one line on stderr and an exit code. `rivulet` and `rivulet-client` are one each.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/program/libraries.h"
#include "cli/program/root.h"

namespace rivulet {

struct Application {
  const char* name;  // prefix of its errors
  // Its command line, as in RootCommand (cli/program/root.h). It may have a function, or subcommands that include
  // `help`.
  Command (*root)(RootArguments* arguments);
  // Loads these after those of the environment; null: it loads no code, and lacks --op-library and so on.
  Status (*load_libraries)(const LibraryPaths& paths) = nullptr;
  // The scenario key for an unknown option ("lr"), or ""; for commands with --set. Null: there are none.
  std::string (*nearest_key)(std::string_view word) = nullptr;
  // Prints help for a topic that is no command, such as `rivulet help keys`. False: `words` is no such topic.
  StatusOr<bool> (*print_topic)(std::span<const std::string> words) = nullptr;
};

// main() of `application`.
int RunApplication(const Application& application, int argc, char** argv);

}  // namespace rivulet
