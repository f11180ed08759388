// A rule that updates the numbers sent with tasks from version to version. One registered file a rule, with its table
// of settings.
//
//   class AdaptiveMu final : public NumberRule { … };
//   RIVULET_NUMBER_RULE(adaptive_mu_registration, "adaptive_mu", {Float("first", 0, "…")}, CreateAdaptiveMu);
//
// A rule is a pure function of the numbers of the version before and of the scalars its clients reported. So a version
// computed again has the same numbers, and a killed run resumes with them.
//
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "federated/numbers/server_numbers.h"
#include "federated/settings/piece.h"

namespace rivulet {

// What a client told with an update that is in the version.
struct ReportedLoss {
  TaskId task;
  std::string client_id;
  int64_t examples = 0;
  double loss = 0;  // "train_loss"
};

// The sum of clients' +1 (their update was at most the clip) and -1, among the sums that a rule reads.
inline constexpr char kUnclipped[] = "unclipped";

// Immutable, thread-safe. Every operation is rounded once, to double: the room is compiled without contraction.
class NumberRule {
 public:
  virtual ~NumberRule() = default;
  // NOT_FOUND names the nearest; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const NumberRule>> Create(const PieceSpec& piece);
  // The rule for a plan whose tasks bring numbers of these names; null: it names none. INVALID_ARGUMENT: the rule moves
  // others.
  static StatusOr<std::unique_ptr<const NumberRule>> For(std::span<const std::string> names, const PieceSpec& piece);

  // What each task brings: plans name the same.
  virtual std::vector<std::string> Names() const = 0;
  // Of version 0.
  virtual ServerNumbers First() const = 0;
  // Of the version that was made from `before` by the updates of those who told, in the order of their tasks' names.
  // Losses that are no number say nothing. `sums`: of the version's scalars, by name; of a private run with the noise
  // in them.
  virtual ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss> told,
                             const Scalars& sums) const = 0;
  // The unit in which clients send updates that start from a version of `numbers`: the server multiplies their mean by
  // it. Nullopt: as they are.
  virtual std::optional<double> UnitOf(const ServerNumbers&) const { return std::nullopt; }
  // What a task of this client brings that starts from a version of `numbers`: all that Names() says.
  virtual Scalars Of(const ServerNumbers& numbers, const std::string& client_id) const = 0;
  // Of how many clients it keeps numbers, which lie in each version's file: a run by it has no more.
  virtual int64_t most_clients() const { return std::numeric_limits<int64_t>::max(); }
};

using NumberRuleFactory = std::unique_ptr<const NumberRule> (*)(const Settings& settings);
// Registers the table ("number rule", name) too. A check fails where two have one name.
struct NumberRuleRegistration {
  NumberRuleRegistration(const char* name, std::vector<Setting> settings, NumberRuleFactory factory);
};
#define RIVULET_NUMBER_RULE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::NumberRuleRegistration variable(__VA_ARGS__)

}  // namespace rivulet
