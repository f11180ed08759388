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

// What a part's sum is divided by. Where updates are stale, weights and scalars count by the factor of their base
// version, as the sum does; tasks and constants do not, so that an update that is late also moves less.
struct Denominator {
  enum class Kind : uint8_t {
    kWeights = 0,   // the sum of its weights: a mean
    kTasks = 1,     // how many tasks were folded, with this part or without (FedBuff)
    kConstant = 2,  // `constant` (differential privacy, which must not divide by what it hides)
    kScalar = 3,    // the sum of the spec's scalar `scalar`
  };
  Kind kind = Kind::kWeights;
  double constant = 0;
  std::string scalar = "";
};

// Which updates have a part: those that declare `scalar` as `value`, such as the model of several that a client chose.
struct OnlyWhere {
  std::string scalar;
  double value = 0;
  bool operator==(const OnlyWhere&) const = default;
};

struct PartSpec {
  std::string name = "delta";
  std::string codec = "f32";                          // how it travels, by name: federated/codecs
  std::map<std::string, double> codec_settings = {};  // of the codec's own table; what is not here has its default
  // Whether a client keeps what the codec leaves out of its update, and adds it to its next one.
  bool error_feedback = false;
  int64_t elements = 0;  // wire order
  int value_bits = 10;   // |value| ≤ 2^value_bits; -30 .. 30
  int sum_bits = 64;     // 64, or 32 under masks
  // The weight rule: "examples", "one" or "scalar:NAME" (both of what the client declares), each of which may be
  // followed by " / number:NAME", a number of the task, such as the probability with which it was drawn.
  std::string weigh = "examples";
  bool optional = false;  // an update may leave it out
  // Of an optional part: an update that declares this has it, and one that declares otherwise has it not, whoever made
  // it. Nothing: whether it has is its client's affair.
  std::optional<OnlyWhere> only_where = {};
  Denominator denominator = {};
};

// Whether an update that declares these has the part, where the spec says which have; else true.
bool IsIn(const PartSpec& part, const Scalars& declared);

// A number that every update declares, summed exactly: weight × value, rounded once to a multiple of 2^-32 of the
// weight's unit, in 128 bits. |value| < 2^32.
struct ScalarSpec {
  std::string name;
  std::string weigh = "examples";  // as PartSpec's; "one": a plain sum
};

struct AggregationSpec {
  std::string rule = "mean";
  std::map<std::string, double> rule_settings = {};  // of the rule's own table; what is not here has its default
  std::vector<PartSpec> parts = {};
  std::vector<ScalarSpec> scalars = {};
  int64_t updates_per_version = 1;  // at most so many folds
  int64_t max_weight = 65536;
  int weight_fraction_bits = 0;  // weights are whole numbers of 2^-f; 0 .. 28
  SecureSum secure = {};
  int staleness_bits = 0;  // 8 where a task may start from an older version than the newest; else 0
  // L2 of all parts of one update together, beyond which it is refused, but for the rounding of its float32; 0: any.
  // Of whoever folds what others send, and no part of the plan or of the digest: it moves no bit of a sum.
  double most_norm = 0;

  // Of a valid spec. A part that is weighed by "one" is bounded by 1, every other by max_weight.
  int64_t weight_bound(const PartSpec& part) const;
  int fraction_bits(const PartSpec& part) const;  // s
  int sum_bits() const;                           // of a secure sum: of all parts
  const PartSpec* Find(std::string_view part) const;
  // Whether a client's examples are what some part that it must send is weighed by: then max_weight bounds them.
  bool weighs_examples() const;
  // SHA-256 over every field: partials of equal digests may meet.
  Digest digest() const;
};

// INVALID_ARGUMENT names the key that is out of range (server.value_bits, server.max_weight,
// server.weight_fraction_bits, server.clients_per_round), the part or scalar that is wrong, or says how many bits are
// missing and which of them to lower.
Status ValidateSpec(const AggregationSpec& spec);

// The weights of one update by the rules of a valid spec. `declared`: what its client says, with "examples"; `numbers`:
// of its task. A weight that is out of range is given as it is, or as the nearest that 64 bits hold: Aggregation::Check
// refuses it. INVALID_ARGUMENT: what a rule asks for is not there or not finite, or a divisor is not above 0.
StatusOr<Weights> WeightsOf(const AggregationSpec& spec, const Scalars& declared, const Scalars& numbers);

}  // namespace rivulet
