// rivulet privacy epsilon, delta, sigma, rounds: calculations about noise, by the accountants of federated/privacy.
#include <memory>

#include "cli/privacy/accounts.h"
#include "cli/privacy/audit.h"
#include "cli/privacy/rounds_options.h"
#include "engine/base/json.h"

namespace rivulet {
namespace {

using privacy::Spend;

void PrintPrivacy(const Fields& fields, bool json) {
  fmt::print("{}", json ? JsonObject(fields) + "\n" : FieldLines(fields));
}

// Adds `name` with its value, and the other facts of the spend.
void AppendSpend(const std::string& name, const Spend& spend, bool json, Fields& fields) {
  fields.emplace_back(name, PrivacyNumberCell(spend.value, json));
  if (spend.lower) fields.emplace_back(json ? name + "_at_least" : "at least", PrivacyNumberCell(*spend.lower, json));
  if (json) {
    fields.emplace_back("is_bound", spend.is_bound);
  } else if (!spend.is_bound) {
    fields.emplace_back("note",
                        std::string("an estimate by the central limit theorem, no bound; use pld or rdp to claim"));
  }
  if (spend.order) fields.emplace_back("order", PrivacyNumberCell(*spend.order, json));
}

// Epsilon of the rounds at the given delta, or (`asks_delta`) delta at the given epsilon.
Status PrintSpend(const PrivacyOptions& options, const PrivacyQuestion& question, bool asks_delta) {
  RIVULET_ASSIGN_OR_RETURN(const PrivacyTask task, PrivacyTaskOf(options, question));
  const StatusOr<Spend> spend = asks_delta ? DeltaOf(task.composition, task.epsilon, task.accountant)
                                           : EpsilonOf(task.composition, task.dp_delta, task.accountant);
  if (absl::IsInvalidArgument(spend.status())) return AsUsageError(spend.status());
  RIVULET_RETURN_IF_ERROR(spend.status());
  Fields fields;
  AppendSpend(asks_delta ? "delta" : "epsilon", *spend, options.json, fields);
  fields.emplace_back(asks_delta ? "epsilon" : "delta",
                      PrivacyNumberCell(asks_delta ? task.epsilon : task.dp_delta, options.json));
  AppendPrivacyContext(task, options.json, fields);
  PrintPrivacy(fields, options.json);
  return absl::OkStatus();
}

Status PrintEpsilon(const PrivacyOptions& options, const PrivacyQuestion& question) {
  return PrintSpend(options, question, /*asks_delta=*/false);
}

Status PrintDelta(const PrivacyOptions& options, const PrivacyQuestion& question) {
  return PrintSpend(options, question, /*asks_delta=*/true);
}

void AppendBudget(const PrivacyTask& task, bool json, Fields& fields) {
  fields.emplace_back("epsilon", PrivacyNumberCell(task.epsilon, json));
  fields.emplace_back("delta", PrivacyNumberCell(task.dp_delta, json));
  AppendPrivacyContext(task, json, fields);
}

// The noise of the rounds in question; those of --with keep theirs.
Status PrintSigma(const PrivacyOptions& options, const PrivacyQuestion& question) {
  RIVULET_ASSIGN_OR_RETURN(const PrivacyTask task, PrivacyTaskOf(options, question));
  if (task.composition.rounds.size() > 1) {
    return UsageError("'privacy sigma' searches the noise of one kind of round; leave --with out");
  }
  const StatusOr<double> sigma = LeastNoise(task.composition, task.epsilon, task.dp_delta, task.accountant);
  if (absl::IsInvalidArgument(sigma.status())) return AsUsageError(sigma.status());
  RIVULET_RETURN_IF_ERROR(sigma.status());
  Fields fields{{"sigma", PrivacyNumberCell(*sigma, options.json)}};
  AppendBudget(task, options.json, fields);
  PrintPrivacy(fields, options.json);
  return absl::OkStatus();
}

Status PrintRounds(const PrivacyOptions& options, const PrivacyQuestion& question) {
  RIVULET_ASSIGN_OR_RETURN(const PrivacyTask task, PrivacyTaskOf(options, question));
  const StatusOr<int64_t> rounds = MostRounds(task.composition, task.epsilon, task.dp_delta, task.accountant);
  if (absl::IsInvalidArgument(rounds.status())) return AsUsageError(rounds.status());
  RIVULET_RETURN_IF_ERROR(rounds.status());
  Fields fields{{"rounds", *rounds}};
  AppendBudget(task, options.json, fields);
  PrintPrivacy(fields, options.json);
  return absl::OkStatus();
}

Command PrivacyCommand(std::string name, std::string summary, std::string example, const PrivacyQuestion& question,
                       Status (*print)(const PrivacyOptions&, const PrivacyQuestion&)) {
  auto options = std::make_shared<PrivacyOptions>();
  Command command{.name = std::move(name), .summary = std::move(summary), .example = std::move(example)};
  AddPrivacyOptions(command, options.get(), question);
  command.run = [options, question, print] { return print(*options, question); };
  return command;
}

const RegisterCommand kPrivacy(46, [] {
  Command privacy{.name = "privacy",
                  .summary = "Compute epsilon, delta, noise or rounds of differential privacy.",
                  .example = "rivulet privacy epsilon --sigma 1.1 --rate 0.01 --rounds 1000 --delta 1e-5"};
  privacy.subcommands.push_back(
      PrivacyCommand("epsilon", "Print the epsilon that rounds with noise spend.",
                     "rivulet privacy epsilon --sigma 1.1 --rate 0.01 --rounds 1000 --delta 1e-5\n"
                     "  rivulet privacy epsilon --sigma 4 --relation replace-one --rate 0.1 --rounds 200 --delta 1e-6",
                     {}, PrintEpsilon));
  privacy.subcommands.push_back(
      PrivacyCommand("delta", "Print the delta that rounds with noise have at an epsilon.",
                     "rivulet privacy delta --sigma 1.1 --rate 0.01 --rounds 1000 --epsilon 2",
                     {.epsilon = true, .delta = false}, PrintDelta));
  privacy.subcommands.push_back(
      PrivacyCommand("sigma", "Print the least noise multiplier with which rounds stay within a budget.",
                     "rivulet privacy sigma --epsilon 2 --delta 1e-5 --rate 0.1 --rounds 200",
                     {.sigma = false, .epsilon = true}, PrintSigma));
  privacy.subcommands.push_back(
      PrivacyCommand("rounds", "Print how many rounds stay within a budget.",
                     "rivulet privacy rounds --sigma 1.1 --rate 0.01 --epsilon 2 --delta 1e-5",
                     {.rounds = false, .epsilon = true}, PrintRounds));
  privacy.subcommands.push_back(PrivacyAuditCommand());
  privacy.subcommands.push_back(PrivacyAccountsCommand());
  return privacy;
});

}  // namespace
}  // namespace rivulet
