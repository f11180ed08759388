// Parameters of an aggregation: constants of the plan, the same in simulations, deployments, aggregators and
// asynchronous runs.
//
// For a part, with f = weight_fraction_bits and U = updates_per_version:
//
//   W       = round(w × 2^f), 1 ≤ W ≤ Wmax = weight_bound(part) < 2^29
//   s       = sum_bits − 2 − value_bits − ceil(log2(U × Wmax)) − staleness_bits, at least 0
//   addend  = W × value, rounded once (to nearest, ties to even) to a multiple of 2^-s
//
// so that sums stay below 2^(sum_bits − 2 − staleness_bits) units for any updates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/aggregation/secure_sum.h"
#include "federated/aggregation/update.h"

namespace rivulet {

// A weight times a float32 is exact in double while the weight has at most 29 bits.
inline constexpr int64_t kMaxWeight = (int64_t{1} << 29) - 1;

// A factor for staleness is k / 2^kStalenessBits, k = 1 .. 2^kStalenessBits.
inline constexpr int kStalenessBits = 8;

// The divisor of a part's sum. If updates are stale, weights and scalars are multiplied by the factor of their base
// version, as the sum is; tasks and constants are not, so that a late update also has less effect.
struct Denominator {
  enum class Kind : uint8_t {
    kWeights = 0,   // the sum of the part's weights: a mean
    kTasks = 1,     // the number of aggregated tasks, with or without this part (FedBuff)
    kConstant = 2,  // `constant` (differential privacy, which must not divide by a private number)
    kScalar = 3,    // the sum of the spec's scalar `scalar`
  };
  Kind kind = Kind::kWeights;
  double constant = 0;
  std::string scalar = "";
};

// Condition on updates with a part: they declare `scalar` as `value`, such as the model that a client chose (IFCA).
struct OnlyWhere {
  std::string scalar;
  double value = 0;
  bool operator==(const OnlyWhere&) const = default;
};

struct PartSpec {
  std::string name = "delta";
  std::string codec = "f32";                          // the part's encoding on the wire, by name: federated/codecs
  std::map<std::string, double> codec_settings = {};  // of the codec's own table; omitted ones have their defaults
  // True if a client keeps the values that the codec leaves out of an update, and adds them to its next update.
  bool error_feedback = false;
  int64_t elements = 0;  // wire order
  int value_bits = 10;   // |value| ≤ 2^value_bits; -30 .. 30
  int sum_bits = 64;     // 64, or 32 with masks
  // The weight rule: "examples", "one" or "scalar:NAME" (examples and scalars are declared by the client). A suffix
  // " / number:NAME" divides by a number of the task, such as its probability of being selected.
  std::string weigh = "examples";
  bool optional = false;  // an update may leave it out
  // For an optional part: an update that declares this must have the part, and one that declares otherwise must not.
  // nullopt: each client decides whether it sends the part.
  std::optional<OnlyWhere> only_where = {};
  Denominator denominator = {};
};

// True if an update with these declared scalars has the part according to only_where; true if there is no condition.
bool IsIn(const PartSpec& part, const Scalars& declared);

// A number that every update declares, summed exactly: weight × value, rounded once to a multiple of 2^-32 of the
// weight's unit, in 128 bits. |value| < 2^32.
struct ScalarSpec {
  std::string name;
  std::string weigh = "examples";  // as PartSpec's; "one": a plain sum
};

struct AggregationSpec {
  std::string rule = "mean";
  std::map<std::string, double> rule_settings = {};  // of the rule's own table; omitted ones have their defaults
  std::vector<PartSpec> parts = {};
  std::vector<ScalarSpec> scalars = {};
  int64_t updates_per_version = 1;  // limit of aggregated updates
  int64_t max_weight = 65536;
  int weight_fraction_bits = 0;  // weights are multiples of 2^-f; 0 .. 28
  SecureSum secure = {};
  int staleness_bits = 0;  // 8 if a task may start from a version before the newest; else 0
  // Limit of the L2 norm of all parts of one update together, apart from float32 rounding; 0: no limit. Set by the
  // aggregating process and not part of plan or digest, since it changes no bit of a sum.
  double most_norm = 0;

  // Bounds of a valid spec. The weight bound is 1 for the weight rule "one", and max_weight for every other.
  int64_t weight_bound(const PartSpec& part) const;
  int fraction_bits(const PartSpec& part) const;  // s
  int sum_bits() const;                           // of a secure sum, the same for all parts
  const PartSpec* Find(std::string_view part) const;
  // Returns true if a required part is weighted by the client's examples, so that max_weight limits them.
  bool weighs_examples() const;
  // SHA-256 over every field: partial sums with equal digests can be merged.
  Digest digest() const;
};

// INVALID_ARGUMENT: names the key that is out of range (server.value_bits, server.max_weight,
// server.weight_fraction_bits, server.clients_per_round) or the wrong part or scalar, or reports how many bits are
// missing and which keys to lower.
Status ValidateSpec(const AggregationSpec& spec);

// Returns the weights of one update by the rules of a valid spec. `declared`: the client's scalars, with "examples";
// `numbers`: the task's. A weight out of range is returned as it is, or as the nearest int64: Aggregation::Check
// refuses it. INVALID_ARGUMENT: a number that a rule needs is missing or not finite, or a divisor is not above 0.
StatusOr<Weights> WeightsOf(const AggregationSpec& spec, const Scalars& declared, const Scalars& numbers);

}  // namespace rivulet
