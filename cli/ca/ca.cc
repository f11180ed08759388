// rivulet ca: admission by certificates of a self-made authority.
#include "cli/ca/commands.h"

namespace rivulet {

void AddAuthorityFolder(Command& command, std::string* folder) {
  command.Option("--ca", "DIR", folder, fmt::format("the authority's folder [{}]", kAuthorityFolder));
}

void PrintSigned(const IndexRow& row) {
  const int64_t now = Clock::System().UnixMs() / 1000;
  fmt::print("{}: certificate {}, good until {} ({})\n", row.subject.name.ToString(), row.serial,
             DayText(row.validity.until), ExpiryText(row.validity, now));
}

namespace {

const RegisterCommand kCa(45, [] {
  Command ca{.name = "ca",
             .summary = "Manage the certificate authority, certificates and start-up kits.",
             .example =
                 "rivulet ca init --name 'Heart study'\n"
                 "  rivulet ca kit coordinator/fl.example.org --scenario scenario.toml\n"
                 "  rivulet ca kit client/hospital-a --coordinator fl.example.org:7000"};
  ca.subcommands.push_back(CaInitCommand());
  ca.subcommands.push_back(CaKitCommand());
  ca.subcommands.push_back(CaIssueCommand());
  ca.subcommands.push_back(CaRequestCommand());
  ca.subcommands.push_back(CaRenewCommand());
  ca.subcommands.push_back(CaRevokeCommand());
  ca.subcommands.push_back(CaListCommand());
  ca.subcommands.push_back(CaShowCommand());
  ca.subcommands.push_back(CaAuthorCommand());
  return ca;
});

}  // namespace
}  // namespace rivulet
