// rivulet version: as `rivulet --version`.
#include "cli/manual/version.h"

#include "cli/command.h"

namespace rivulet {

void PrintVersion() { fmt::print("rivulet {}\n", RIVULET_VERSION); }

namespace {

const RegisterCommand kVersionCommand(98, [] {
  Command command{.name = "version", .summary = "Print the version of this program.", .example = "rivulet version"};
  command.run = [] {
    PrintVersion();
    return absl::OkStatus();
  };
  return command;
});

}  // namespace
}  // namespace rivulet
