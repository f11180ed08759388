#include "federated/aggregation/aggregation_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace rivulet {
namespace {

// ceil(log2(count)) for count >= 1.
int CeilLog2(uint64_t count) { return static_cast<int>(std::bit_width(count - 1)); }

constexpr int64_t kMaxUpdates = int64_t{1} << 31;
constexpr int kMaxValueBits = 30;
constexpr int kMaxWeightFractionBits = 28;
constexpr size_t kMaxSpecParts = 16, kMaxSpecScalars = 10000, kMaxSpecNameBytes = 256;

constexpr std::string_view kExamples = "examples", kOne = "one",
                           kScalarPrefix = "scalar:", kNumberPrefix = "number:", kOver = " / ";

Status CheckWeigh(std::string_view owner, std::string_view weigh) {
  const size_t over = weigh.find(kOver);
  const std::string_view what = weigh.substr(0, over);
  const bool known =
      what == kExamples || what == kOne || (what.starts_with(kScalarPrefix) && what.size() > kScalarPrefix.size());
  bool divisor = true;
  if (over != std::string_view::npos) {
    const std::string_view by = weigh.substr(over + kOver.size());
    divisor = by.starts_with(kNumberPrefix) && by.size() > kNumberPrefix.size();
  }
  if (known && divisor) return absl::OkStatus();
  return InvalidArgument(
      "{} is weighed by '{}'; a rule is 'examples', 'one' or 'scalar:NAME', and may end in ' / number:NAME'", owner,
      weigh);
}

Status CheckSpecName(std::string_view what, std::string_view name, std::set<std::string_view>& names) {
  if (name.empty() || name.size() > kMaxSpecNameBytes) {
    return InvalidArgument("the name of a {} has 1 to {} bytes, not {}", what, kMaxSpecNameBytes, name.size());
  }
  if (!names.insert(name).second) return InvalidArgument("two {}s are named '{}'", what, name);
  return absl::OkStatus();
}

// Checks the value, sum and weight bits of one part; errors name the keys that users set.
Status CheckBits(const AggregationSpec& spec, const PartSpec& part) {
  if (part.elements < 1 || part.elements > (int64_t{1} << 40)) {
    return InvalidArgument("an update of {} elements cannot be aggregated; it has 1 to 2^40", part.elements);
  }
  if (part.value_bits < -kMaxValueBits || part.value_bits > kMaxValueBits) {
    return InvalidArgument("server.value_bits = {} is not between {} and {}", part.value_bits, -kMaxValueBits,
                           kMaxValueBits);
  }
  if (part.sum_bits != 64 && part.sum_bits != 32) {
    return InvalidArgument("sums of {} bits cannot be kept; they have 64, or 32 under masks", part.sum_bits);
  }
  if (spec.secure.on() && spec.fraction_bits(part) < kLeastSecureFractionBits) {
    return InvalidArgument(
        "secure sums of {} bits leave {} bits after the point, and {} are needed. Set server.sum_bits to 64 or "
        "server.weights to \"uniform\", or lower server.max_weight or privacy.clip. Values are up to 2^{}, weights up "
        "to {} "
        "and updates {} (server.clients_per_round)",
        part.sum_bits, spec.fraction_bits(part), kLeastSecureFractionBits, part.value_bits, spec.weight_bound(part),
        spec.updates_per_version);
  }
  if (spec.fraction_bits(part) < 0) {
    const std::string fractions = spec.weight_fraction_bits == 0
                                      ? ""
                                      : fmt::format(", server.weight_fraction_bits = {}", spec.weight_fraction_bits);
    return InvalidArgument(
        "server.value_bits = {}, server.max_weight = {}{} and {} updates per version (server.clients_per_round) need "
        "{} bits more than the {} of a sum; lower one of them",
        part.value_bits, spec.max_weight, fractions, spec.updates_per_version, -spec.fraction_bits(part),
        part.sum_bits - 2 - spec.staleness_bits);
  }
  return absl::OkStatus();
}

// Checks a secure sum: its rule must add updates, and all its words have one width.
Status CheckSecure(const AggregationSpec& spec) {
  const SecureSum& secure = spec.secure;
  if (!secure.on()) return absl::OkStatus();
  if (spec.rule != "mean") {
    return InvalidArgument(
        "the aggregation rule '{}' reads each update, which secure aggregation (privacy.secure) hides; use a mean, or "
        "set "
        "privacy.secure to \"none\"",
        spec.rule);
  }
  if (spec.staleness_bits > 0) {
    return InvalidArgument(
        "secure aggregation (privacy.secure) sums the updates of one version, and server.base is \"latest\"; set it to "
        "\"committed\"");
  }
  if (spec.updates_per_version > kMostSecureUpdates) {
    return InvalidArgument("a secure sum has at most {} updates, and server.clients_per_round is {}; lower it",
                           kMostSecureUpdates, spec.updates_per_version);
  }
  if (secure.min_survivors < 1 || secure.min_survivors > spec.updates_per_version) {
    return InvalidArgument("privacy.min_survivors is {}, and a round sums 1 to {} updates (server.clients_per_round)",
                           secure.min_survivors, spec.updates_per_version);
  }
  if (secure.min_cohort < secure.min_survivors || secure.max_colluding < 0 || secure.least_sum < 1 ||
      !(secure.drop_out >= 0 && secure.drop_out < 1)) {
    return InvalidArgument(
        "a secure sum has privacy.min_cohort = {}, max_colluding = {}, drop_out = {} and least_sum = {}. They are at "
        "least "
        "min_survivors, 0, 0 and 1, and drop_out is below 1",
        secure.min_cohort, secure.max_colluding, secure.drop_out, secure.least_sum);
  }
  for (const PartSpec& part : spec.parts) {
    if (part.sum_bits == spec.sum_bits()) continue;
    return InvalidArgument("the parts of a secure sum have words of {} and of {} bits, and they need one width",
                           spec.sum_bits(), part.sum_bits);
  }
  return absl::OkStatus();
}

Status CheckDenominator(const AggregationSpec& spec, const PartSpec& part) {
  const Denominator& by = part.denominator;
  switch (by.kind) {
    case Denominator::Kind::kWeights:
    case Denominator::Kind::kTasks:
      return absl::OkStatus();
    case Denominator::Kind::kConstant:
      if (std::isfinite(by.constant) && by.constant >= 0x1p-100 && by.constant <= 0x1p100) return absl::OkStatus();
      return InvalidArgument("part '{}' is divided by the constant {}, which is not between 2^-100 and 2^100",
                             part.name, by.constant);
    case Denominator::Kind::kScalar:
      for (const ScalarSpec& scalar : spec.scalars) {
        if (scalar.name == by.scalar) return absl::OkStatus();
      }
      return InvalidArgument("part '{}' is divided by the sum of the scalar '{}', which the plan does not sum",
                             part.name, by.scalar);
  }
  return InvalidArgument("part '{}' has the unknown denominator {}", part.name, static_cast<int>(by.kind));
}

Status CheckOnlyWhere(const PartSpec& part) {
  if (!part.only_where) return absl::OkStatus();
  const auto& [scalar, value] = *part.only_where;
  if (part.optional && !scalar.empty() && scalar.size() <= kMaxSpecNameBytes && std::isfinite(value)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "part '{}' is of updates that declare '{}' as {}; such a part is optional, and the scalar has a name and a "
      "finite value",
      part.name, scalar, value);
}

StatusOr<double> NumberOf(const Scalars& numbers, std::string_view name, std::string_view whose) {
  const auto found = numbers.find(std::string(name));
  if (found == numbers.end()) return InvalidArgument("{} '{}', which weighs an update, is missing", whose, name);
  if (!std::isfinite(found->second)) {
    return InvalidArgument("{} '{}', which weighs an update, is {}", whose, name, found->second);
  }
  return found->second;
}

StatusOr<int64_t> WeightOf(std::string_view weigh, int fraction_bits, const Scalars& declared, const Scalars& numbers) {
  const size_t over = weigh.find(kOver);
  const std::string_view what = weigh.substr(0, over);
  double weight = 1;
  if (what != kOne) {
    const std::string_view name = what == kExamples ? kExamples : what.substr(kScalarPrefix.size());
    RIVULET_ASSIGN_OR_RETURN(weight, NumberOf(declared, name, "the declared"));
  }
  if (over != std::string_view::npos) {
    const std::string_view by = weigh.substr(over + kOver.size() + kNumberPrefix.size());
    RIVULET_ASSIGN_OR_RETURN(const double divisor, NumberOf(numbers, by, "the task's number"));
    if (!(divisor > 0)) return InvalidArgument("the task's number '{}' is {}; a divisor must be above 0", by, divisor);
    weight /= divisor;
  }
  // Exceeds every bound, and fits an int64.
  const double units = std::clamp(std::ldexp(weight, fraction_bits), -0x1p62, 0x1p62);
  return std::llround(units);
}

}  // namespace

int64_t AggregationSpec::weight_bound(const PartSpec& part) const {
  return (part.weigh == kOne ? 1 : max_weight) << weight_fraction_bits;
}

// The resolution is not a setting but follows from the bounds: the finest one at which no set of updates that passes
// Check can overflow. So adding never has to test for overflow.
int AggregationSpec::fraction_bits(const PartSpec& part) const {
  // At most 2^31 updates of weights below 2^29: the product has 60 bits.
  const auto weights = static_cast<uint64_t>(updates_per_version) * static_cast<uint64_t>(weight_bound(part));
  return part.sum_bits - 2 - part.value_bits - CeilLog2(weights) - staleness_bits;
}

int AggregationSpec::sum_bits() const { return parts.empty() ? 64 : parts[0].sum_bits; }

bool IsIn(const PartSpec& part, const Scalars& declared) {
  if (!part.only_where) return true;
  const auto said = declared.find(part.only_where->scalar);
  return said != declared.end() && said->second == part.only_where->value;
}

const PartSpec* AggregationSpec::Find(std::string_view part) const {
  for (const PartSpec& candidate : parts) {
    if (candidate.name == part) return &candidate;
  }
  return nullptr;
}

bool AggregationSpec::weighs_examples() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const PartSpec& part) { return part.weigh == "examples" && !part.optional; });
}

Digest AggregationSpec::digest() const {
  Sha256 hash;
  const auto text = [&](std::string_view words) {
    hash.UpdateU32(static_cast<uint32_t>(words.size()));
    hash.Update(words);
  };
  const auto number = [&](int64_t value) { hash.UpdateU64(static_cast<uint64_t>(value)); };
  text("rivulet aggregation 1");
  text(rule);
  for (const auto& [name, value] : rule_settings) {
    text(name);
    hash.UpdateU64(std::bit_cast<uint64_t>(value));
  }
  number(std::ssize(parts));
  for (const PartSpec& part : parts) {
    text(part.name);
    text(part.codec);
    for (const auto& [name, value] : part.codec_settings) {
      text(name);
      hash.UpdateU64(std::bit_cast<uint64_t>(value));
    }
    if (part.error_feedback) text("error feedback");
    for (const int64_t field : {part.elements, int64_t{part.value_bits}, int64_t{part.sum_bits}}) number(field);
    text(part.weigh);
    hash.UpdateU8(part.optional);
    if (part.only_where) {
      text("only where");
      text(part.only_where->scalar);
      hash.UpdateU64(std::bit_cast<uint64_t>(part.only_where->value));
    }
    hash.UpdateU8(static_cast<uint8_t>(part.denominator.kind));
    hash.UpdateU64(std::bit_cast<uint64_t>(part.denominator.constant));
    text(part.denominator.scalar);
  }
  number(std::ssize(scalars));
  for (const ScalarSpec& scalar : scalars) text(scalar.name), text(scalar.weigh);
  for (const int64_t field :
       {updates_per_version, max_weight, int64_t{weight_fraction_bits}, int64_t{staleness_bits}}) {
    number(field);
  }
  if (secure.on()) {
    text("secure");
    text(secure.protocol);
    for (const int64_t field : {secure.min_cohort, secure.min_survivors, secure.max_colluding, secure.least_sum}) {
      number(field);
    }
    hash.UpdateU64(std::bit_cast<uint64_t>(secure.drop_out));
  }
  return std::move(hash).Finish();
}

Status ValidateSpec(const AggregationSpec& spec) {
  if (spec.updates_per_version < 1 || spec.updates_per_version > kMaxUpdates) {
    return InvalidArgument("{} updates per version (server.clients_per_round) are not between 1 and 2^31",
                           spec.updates_per_version);
  }
  if (spec.max_weight < 1 || spec.max_weight > kMaxWeight) {
    return InvalidArgument("server.max_weight = {} is not between 1 and 2^29 - 1", spec.max_weight);
  }
  if (spec.weight_fraction_bits < 0 || spec.weight_fraction_bits > kMaxWeightFractionBits) {
    return InvalidArgument("server.weight_fraction_bits = {} is not between 0 and {}", spec.weight_fraction_bits,
                           kMaxWeightFractionBits);
  }
  // Otherwise a weight times a float32 would not be exact in double.
  if (spec.max_weight > kMaxWeight >> spec.weight_fraction_bits) {
    return InvalidArgument(
        "server.max_weight = {} in units of 2^-{} is not below 2^29; lower it or server.weight_fraction_bits",
        spec.max_weight, spec.weight_fraction_bits);
  }
  if (spec.staleness_bits != 0 && spec.staleness_bits != kStalenessBits) {
    return InvalidArgument("a factor of {} bits for staleness cannot be kept free; it has {}, or 0 without",
                           spec.staleness_bits, kStalenessBits);
  }
  RIVULET_RETURN_IF_ERROR(CheckSecure(spec));
  if (spec.parts.size() > kMaxSpecParts || spec.scalars.size() > kMaxSpecScalars ||
      spec.parts.size() + spec.scalars.size() == 0) {
    return InvalidArgument("an aggregation of {} parts and {} scalars; there are at most {} and {}, and one at least",
                           spec.parts.size(), spec.scalars.size(), kMaxSpecParts, kMaxSpecScalars);
  }
  std::set<std::string_view> names;
  for (const PartSpec& part : spec.parts) {
    RIVULET_RETURN_IF_ERROR(CheckSpecName("part", part.name, names));
    RIVULET_RETURN_IF_ERROR(CheckWeigh(fmt::format("part '{}'", part.name), part.weigh));
    const Status bits = CheckBits(spec, part);
    if (!bits.ok()) return spec.parts.size() == 1 ? bits : Annotate(bits, fmt::format("part '{}'", part.name));
    RIVULET_RETURN_IF_ERROR(CheckDenominator(spec, part));
    RIVULET_RETURN_IF_ERROR(CheckOnlyWhere(part));
  }
  // 2^8 × 2^54 × 2^32 in units of 2^-32 fit the 128 bits of a scalar's sum.
  constexpr int kMostWeightBits = 54;
  const auto weights = static_cast<uint64_t>(spec.updates_per_version) *
                       static_cast<uint64_t>(spec.max_weight << spec.weight_fraction_bits);
  if (!spec.scalars.empty() && spec.staleness_bits > 0 && CeilLog2(weights) > kMostWeightBits) {
    return InvalidArgument(
        "{} updates per version (server.clients_per_round) of a server.max_weight of {} in units of 2^-{} are beyond "
        "2^{}; lower one of them",
        spec.updates_per_version, spec.max_weight, spec.weight_fraction_bits, kMostWeightBits);
  }
  names.clear();
  for (const ScalarSpec& scalar : spec.scalars) {
    RIVULET_RETURN_IF_ERROR(CheckSpecName("scalar", scalar.name, names));
    RIVULET_RETURN_IF_ERROR(CheckWeigh(fmt::format("scalar '{}'", scalar.name), scalar.weigh));
  }
  return absl::OkStatus();
}

StatusOr<Weights> WeightsOf(const AggregationSpec& spec, const Scalars& declared, const Scalars& numbers) {
  Weights weights;
  for (const PartSpec& part : spec.parts) {
    RIVULET_ASSIGN_OR_RETURN(weights.parts.emplace_back(),
                             WeightOf(part.weigh, spec.weight_fraction_bits, declared, numbers));
  }
  for (const ScalarSpec& scalar : spec.scalars) {
    RIVULET_ASSIGN_OR_RETURN(weights.scalars.emplace_back(),
                             WeightOf(scalar.weigh, spec.weight_fraction_bits, declared, numbers));
  }
  return weights;
}

}  // namespace rivulet
