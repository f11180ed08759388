// A rule that updates the numbers sent with tasks from version to version. Each rule is one registered file with its
// table of settings.
//
//   class AdaptiveMu final : public NumberRule { … };
//   RIVULET_NUMBER_RULE(adaptive_mu_registration, "adaptive_mu", {Float("first", 0, "…")}, CreateAdaptiveMu);
//
// A rule is a pure function of the previous version's numbers and the scalars that its clients reported. So a version
// computed again has the same numbers, and a killed run resumes with them.
//
// Lookups are thread-safe once main has started; registrations run before.
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

// The loss reported with an update that is in the version.
struct ReportedLoss {
  TaskId task;
  std::string client_id;
  int64_t examples = 0;
  double loss = 0;  // "train_loss"
};

// The scalar with the sum over clients of +1 (norm at most the clip) or -1, among the sums of Next.
inline constexpr char kUnclipped[] = "unclipped";

// Immutable, thread-safe. Every operation is rounded once, to double: this folder is compiled without contraction.
class NumberRule {
 public:
  virtual ~NumberRule() = default;
  // NOT_FOUND names the nearest rule; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const NumberRule>> Create(const PieceSpec& piece);
  // The rule for a plan whose tasks have numbers of these names; null if there are none. INVALID_ARGUMENT: the rule
  // sets other numbers.
  static StatusOr<std::unique_ptr<const NumberRule>> For(std::span<const std::string> names, const PieceSpec& piece);

  // Names of the numbers of each task, as in the plan.
  virtual std::vector<std::string> Names() const = 0;
  // The numbers of version 0.
  virtual ServerNumbers First() const = 0;
  // The numbers of the version made from the version with `before`. `told`: losses of its updates, in the order of task
  // names; losses that are not finite are ignored. `sums`: the sums of the version's scalars, by name; in a private
  // run they contain the noise.
  virtual ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss> told,
                             const Scalars& sums) const = 0;
  // The unit in which clients send updates that start from a version of `numbers`: the server multiplies their mean by
  // it. nullopt: values are sent unscaled.
  virtual std::optional<double> UnitOf(const ServerNumbers&) const { return std::nullopt; }
  // The numbers, by Names(), of this client's task that starts from a version of `numbers`.
  virtual Scalars Of(const ServerNumbers& numbers, const std::string& client_id) const = 0;
  // Limit of a run's clients: the rule keeps numbers per client, which every version's file contains.
  virtual int64_t most_clients() const { return std::numeric_limits<int64_t>::max(); }
};

using NumberRuleFactory = std::unique_ptr<const NumberRule> (*)(const Settings& settings);
// Also registers the table ("number rule", name). CHECK fails if two have one name.
struct NumberRuleRegistration {
  NumberRuleRegistration(const char* name, std::vector<Setting> settings, NumberRuleFactory factory);
};
#define RIVULET_NUMBER_RULE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::NumberRuleRegistration variable(__VA_ARGS__)

}  // namespace rivulet
