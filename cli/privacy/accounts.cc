// rivulet privacy accounts: the privacy spend of each client's examples, from a folder of accounts.
#include "cli/privacy/accounts.h"

#include <charconv>
#include <memory>

#include "cli/privacy/rounds_options.h"
#include "client/training/example_accounts.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

struct AccountsOptions {
  std::string folder;
  std::string delta;
  bool json = false;
};

Status PrintAccounts(const AccountsOptions& options) {
  double delta = 1e-5;
  const char* const end = options.delta.data() + options.delta.size();
  const auto read = std::from_chars(options.delta.data(), end, delta);
  if (!options.delta.empty() && (read.ec != std::errc() || read.ptr != end || !(delta > 0) || !(delta < 1))) {
    return UsageError("--delta takes a number between 0 and 1, and '{}' is none", options.delta);
  }
  FileSystem& files = FileSystem::Default();
  // A client's --state, a run's folder, or the folder of the accounts itself.
  const std::string below = JoinPath(options.folder, kExamplesFolder);
  const std::string folder = files.Exists(below) ? below : options.folder;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ExampleAccounts::Account> accounts,
                           ExampleAccounts::List(files, folder, delta));
  if (accounts.empty()) {
    return NotFound(
        "'{}' has no accounts of examples; name the --state folder of a client, or the models folder of a "
        "simulated run with privacy.unit = \"example\"",
        options.folder);
  }
  Table table({{.name = "client"}, {.name = "steps"}, {.name = "epsilon", .digits = -1}});
  for (const ExampleAccounts::Account& account : accounts) {
    table.Add({account.client, account.steps, PrivacyNumberCell(account.epsilon, options.json)});
  }
  fmt::print("{}", options.json ? table.Json() : table.Text());
  return absl::OkStatus();
}

}  // namespace

Command PrivacyAccountsCommand() {
  auto options = std::make_shared<AccountsOptions>();
  Command command{.name = "accounts",
                  .summary = "Print the epsilon that the examples of each client have spent.",
                  .example = "rivulet privacy accounts rivulet-state --delta 1e-6"};
  command
      .Positional("DIR", &options->folder,
                  "a client's --state folder, or the models folder of a simulated run with privacy.unit = \"example\"")
      .Option("--delta", "DELTA", &options->delta, "delta of each epsilon [1e-5]")
      .Flag("--json", &options->json, "print JSON");
  command.run = [options] { return PrintAccounts(*options); };
  return command;
}

}  // namespace rivulet
