// rivulet version: the same as `rivulet --version`.
#include "cli/program/root.h"

namespace rivulet {
namespace {

const RegisterCommand kVersionCommand(98, [] {
  Command command{.name = "version", .summary = "Print the version of this program.", .example = "rivulet version"};
  command.run = [] {
    PrintVersion("rivulet");
    return absl::OkStatus();
  };
  return command;
});

}  // namespace
}  // namespace rivulet
