// Options and output shared by the commands of `rivulet privacy`: descriptions of noised rounds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "engine/base/table.h"
#include "federated/privacy/accountant.h"

namespace rivulet {

// The given texts: CompositionOf parses the numbers.
struct PrivacyOptions {
  std::string sigma, rate, epsilon, delta, sensitivity;
  std::optional<int64_t> rounds, dimension, contributors;
  std::string noise = "gaussian", relation = "add-remove", accountant = "pld";
  std::vector<std::string> with;
  bool json = false;
};

// The numbers that a command takes; it prints the missing one.
struct PrivacyQuestion {
  bool sigma = true, rounds = true, epsilon = false, delta = true;
};
void AddPrivacyOptions(Command& command, PrivacyOptions* options, const PrivacyQuestion& question);

// A parsed question. Usage errors.
struct PrivacyTask {
  privacy::Composition composition;  // the rounds in question come last
  privacy::Accountant accountant = privacy::Accountant::kPld;
  double epsilon = 0, dp_delta = 0;
};
StatusOr<PrivacyTask> PrivacyTaskOf(const PrivacyOptions& options, const PrivacyQuestion& question);

// Adds the relation, the sampling and the accountant to an answer's numbers: in words for people, and by name for
// programs.
void AppendPrivacyContext(const PrivacyTask& task, bool json, Fields& fields);
// "0.6401"; "infinite".
std::string PrivacyNumberText(double value);
// null if it is infinite.
Cell PrivacyNumberCell(double value, bool json);

}  // namespace rivulet
