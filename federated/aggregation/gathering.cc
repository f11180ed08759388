#include "federated/aggregation/gathering.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "engine/base/check.h"
#include "federated/aggregation/measured_scalar.h"

namespace rivulet {
namespace {

constexpr double kMostMeasured = 0x1p32 - 1;  // limit of WideSum's values

}  // namespace

StatusOr<PartCodecs> CodecsOf(const AggregationSpec& spec) {
  PartCodecs codecs;
  for (const PartSpec& part : spec.parts) {
    RIVULET_ASSIGN_OR_RETURN(codecs.emplace_back(), Codec::Create(part.codec, part.elements, part.codec_settings));
  }
  return codecs;
}

Gathering::Gathering(const AggregationSpec& spec, PartCodecs codecs)
    : Aggregation(spec), digest_(spec.digest()), codecs_(std::move(codecs)) {}

Status Gathering::Check(const UpdateView& update, const Weights& weights) const {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<const PartView*> parts, CheckForm(update, weights));
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p] == nullptr) continue;
    if (parts[p]->device_part != nullptr) {
      return InvalidArgument("the {} of task '{}' is on a device; its values are checked when it is added",
                             parts[p]->name, update.task);
    }
    const int value_bits = spec().parts[p].value_bits;
    if (const auto sparse = SparseOf(*parts[p], p)) {
      const int64_t bad = FirstBad(*sparse, value_bits);
      if (bad < sparse->count) return BadValue(update, p, sparse->index(bad), sparse->value(bad));
      continue;
    }
    Status status;
    EachRun(*parts[p], p, [&](const FloatRun& run, int64_t first) {
      const int64_t bad = FirstBad(run, value_bits);
      if (bad < run.count) status = BadValue(update, p, first + bad, ValueOf(run, bad));
      return status.ok();
    });
    RIVULET_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

StatusOr<Aggregation::Taken> Gathering::Take(const UpdateView& update, const Weights& weights) {
  if (Folded(update.task)) return Taken{};
  RIVULET_ASSIGN_OR_RETURN(const std::vector<const PartView*> parts, CheckForm(update, weights));
  RIVULET_RETURN_IF_ERROR(CheckRoom(1));
  RIVULET_ASSIGN_OR_RETURN(Partial* const gathered, GatheredFrom(update.base_version));
  Partial& into = *gathered;

  std::vector<FoldState> folds(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p] == nullptr) continue;
    Status status = AddPart(update, *parts[p], p, weights.parts[p], into.parts[p], folds[p]);
    if (status.ok()) continue;
    while (p-- > 0) {
      if (parts[p] != nullptr) RemovePart(*parts[p], p, weights.parts[p], into.parts[p]);
    }
    return status;
  }
  if (const Status status = CheckNorm(update, folds); !status.ok()) {
    for (size_t p = parts.size(); p-- > 0;) {
      if (parts[p] != nullptr) RemovePart(*parts[p], p, weights.parts[p], into.parts[p]);
    }
    return status;
  }
  return Count(update, weights, parts, folds, into);
}

StatusOr<Partial*> Gathering::GatheredFrom(int64_t base_version) {
  const auto found = gathered_.find(base_version);
  if (found != gathered_.end()) return &found->second;
  RIVULET_ASSIGN_OR_RETURN(Partial empty, EmptyPartial(spec(), base_version, sum_files()));
  return &gathered_.emplace(base_version, std::move(empty)).first->second;
}

Aggregation::Taken Gathering::Count(const UpdateView& update, const Weights& weights,
                                    std::span<const PartView* const> parts, std::span<const FoldState> folds,
                                    Partial& into) const {
  Taken taken;
  bool first = true;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p] == nullptr) continue;
    PartSums& sums = into.parts[p];
    sums.nonzeros += folds[p].nonzeros;
    sums.lost_nonzeros += folds[p].lost;
    sums.weight_sum += weights.parts[p];
    ++sums.updates;
    if (std::exchange(first, false) || spec().parts[p].name == "delta") taken.norm = folds[p].Norm();
  }
  for (size_t i = 0; i < into.scalars.size(); ++i) {
    const std::string& name = spec().scalars[i].name;
    const double value = name == kSquaredNorm ? taken.norm * taken.norm : update.scalars.at(name);
    into.scalars[i].Add(WideSum::Of(weights.scalars[i], value));
  }
  into.tasks.insert(update.task);
  return taken;
}

std::vector<StatusOr<Aggregation::Taken>> Aggregation::TakeTogether(std::span<const UpdateView> updates,
                                                                    std::span<const Weights> weights) {
  std::vector<StatusOr<Taken>> taken;
  for (size_t i = 0; i < updates.size(); ++i) taken.push_back(Take(updates[i], weights[i]));
  return taken;
}

// Processes all updates together only in the usual case: new and distinct tasks of one base version,
// room for all of them, and valid forms. Otherwise calls Take one by one, which reports each update's
// error
std::vector<StatusOr<Aggregation::Taken>> Gathering::TakeTogether(std::span<const UpdateView> updates,
                                                                  std::span<const Weights> weights) {
  std::vector<std::vector<const PartView*>> parts;
  parts.reserve(updates.size());
  std::unordered_set<std::string_view> tasks(updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].base_version != updates[0].base_version || Folded(updates[i].task)) break;
    auto form = CheckForm(updates[i], weights[i]);
    if (!form.ok() || !tasks.insert(updates[i].task).second) break;
    parts.push_back(*std::move(form));
  }
  if (updates.empty() || parts.size() < updates.size() || !CheckRoom(updates.size()).ok()) {
    return Aggregation::TakeTogether(updates, weights);
  }
  const StatusOr<Partial*> gathered = GatheredFrom(updates[0].base_version);
  if (!gathered.ok()) return std::vector<StatusOr<Taken>>(updates.size(), gathered.status());
  Partial& into = **gathered;

  std::vector<Status> statuses(updates.size());
  std::vector<std::vector<FoldState>> folds(updates.size(), std::vector<FoldState>(spec().parts.size()));
  for (size_t p = 0; p < spec().parts.size(); ++p) {
    std::vector<Adding> adding;
    std::vector<size_t> whose;
    for (size_t i = 0; i < updates.size(); ++i) {
      if (parts[i][p] == nullptr || !statuses[i].ok()) continue;
      adding.push_back({&updates[i], parts[i][p], weights[i].parts[p], &folds[i][p], &statuses[i]});
      whose.push_back(i);
    }
    AddParts(adding, p, into.parts[p]);
    for (const size_t i : whose) {
      for (size_t before = p; !statuses[i].ok() && before-- > 0;) {
        if (parts[i][before] != nullptr) {
          RemovePart(*parts[i][before], before, weights[i].parts[before], into.parts[before]);
        }
      }
    }
  }
  std::vector<StatusOr<Taken>> taken;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (statuses[i].ok()) {
      statuses[i] = CheckNorm(updates[i], folds[i]);
      for (size_t p = parts[i].size(); !statuses[i].ok() && p-- > 0;) {
        if (parts[i][p] != nullptr) RemovePart(*parts[i][p], p, weights[i].parts[p], into.parts[p]);
      }
    }
    if (statuses[i].ok()) {
      taken.push_back(Count(updates[i], weights[i], parts[i], folds[i], into));
    } else {
      taken.push_back(statuses[i]);
    }
  }
  return taken;
}

void Gathering::AddParts(std::span<const Adding> updates, size_t p, PartSums& into) {
  for (const Adding& adding : updates) {
    *adding.status = AddPart(*adding.update, *adding.part, p, adding.weight, into, *adding.state);
  }
}

// A partial sum comes from another process. Its CRCs show that it arrived intact; only the bounds can show whether its
// numbers are possible.
Status Gathering::Check(const Partial& partial) const {
  if (partial.spec != digest_ || partial.parts.size() != spec().parts.size() ||
      partial.scalars.size() != spec().scalars.size()) {
    return InvalidArgument(
        "a partial of aggregation {} cannot join one of aggregation {}: their plans sum other parts, or in other units",
        partial.spec.Hex(), digest_.Hex());
  }
  const auto tasks = static_cast<int64_t>(partial.tasks.size());
  if (tasks > spec().updates_per_version) {
    return InvalidArgument("a partial holds {} updates, more than the {} of a version", tasks,
                           spec().updates_per_version);
  }
  RIVULET_RETURN_IF_ERROR(CheckBase(partial.base_version));
  for (size_t p = 0; p < partial.parts.size(); ++p) {
    RIVULET_RETURN_IF_ERROR(CheckCounts(spec().parts[p], partial.parts[p], tasks));
    RIVULET_RETURN_IF_ERROR(CheckSums(spec().parts[p], partial.parts[p]));
  }
  const int64_t most = tasks * (spec().max_weight << spec().weight_fraction_bits);
  for (size_t i = 0; i < partial.scalars.size(); ++i) {
    if (partial.scalars[i].Within(most)) continue;
    return InvalidArgument("a partial sum's {} of '{}' is beyond the range of its {} updates",
                           partial.scalars[i].ToDouble(), spec().scalars[i].name, tasks);
  }
  return absl::OkStatus();
}

Status Gathering::Merge(Partial&& partial) {
  RIVULET_RETURN_IF_ERROR(Check(partial));
  for (const TaskId& task : partial.tasks) {
    if (Folded(task)) {
      return FailedPrecondition("task '{}' of a partial was folded here already; it would count twice", task);
    }
  }
  RIVULET_RETURN_IF_ERROR(CheckRoom(partial.tasks.size()));
  Partial& into = gathered_[partial.base_version];
  if (into.empty()) {
    into = std::move(partial);
    return absl::OkStatus();
  }
  for (size_t p = 0; p < partial.parts.size(); ++p) {
    PartSums& sums = into.parts[p];
    PartSums& more = partial.parts[p];
    sums.weight_sum += more.weight_sum;
    sums.updates += more.updates;
    sums.nonzeros += more.nonzeros;
    sums.lost_nonzeros += more.lost_nonzeros;
    MergeSums(sums, std::move(more));
  }
  for (size_t i = 0; i < partial.scalars.size(); ++i) into.scalars[i].Add(partial.scalars[i]);
  into.tasks.merge(partial.tasks);
  return absl::OkStatus();
}

std::vector<Partial> Gathering::Save() const {
  std::vector<Partial> copies;
  for (const auto& [base, partial] : gathered_) {
    if (!partial.empty()) copies.push_back(partial);
  }
  return copies;
}

Partial Gathering::Extract(int64_t base_version) {
  const auto found = gathered_.find(base_version);
  if (found == gathered_.end()) return EmptyPartial(spec(), base_version);
  Partial taken = std::move(found->second);
  gathered_.erase(found);
  return taken;
}

StatusOr<ServerInput> Gathering::Finish(const Staleness& staleness) && {
  RIVULET_ASSIGN_OR_RETURN(ServerInput input, std::move(*this).FinishUndivided(staleness));
  for (ServerInput::Part& part : input.parts) part.Divide();
  return input;
}

bool IsDefinedWithoutUpdates(const AggregationSpec& spec) {
  return spec.rule == "mean" && !spec.secure.on() && std::ranges::all_of(spec.parts, [](const PartSpec& part) {
           return !part.optional && part.denominator.kind == Denominator::Kind::kConstant;
         });
}

StatusOr<ServerInput> Gathering::FinishUndivided(const Staleness& staleness) && {
  std::erase_if(gathered_, [](const auto& gathered) { return gathered.second.empty(); });
  const bool without = gathered_.empty() && IsDefinedWithoutUpdates(spec());
  if (without) RIVULET_RETURN_IF_ERROR(GatheredFrom(0).status());
  if (gathered_.empty()) return FailedPrecondition("no update was folded, so there is no mean of any");
  std::vector<int64_t> factors;
  for (const auto& [base, partial] : gathered_) {
    factors.push_back(spec().staleness_bits == 0 ? 1 : staleness(base));
    RIVULET_CHECK(factors.back() >= 1 && factors.back() <= int64_t{1} << spec().staleness_bits,
                  "version {} has the factor {}", base, factors.back());
  }
  ServerInput input;
  std::vector<WideSum> scalars(spec().scalars.size());
  size_t b = 0;
  for (const auto& [base, partial] : gathered_) {
    input.updates += static_cast<int64_t>(partial.tasks.size());
    for (size_t i = 0; i < scalars.size(); ++i) scalars[i].Add(partial.scalars[i].Times(factors[b]));
    ++b;
  }
  const int unit = spec().weight_fraction_bits + spec().staleness_bits;
  for (size_t i = 0; i < scalars.size(); ++i) {
    input.scalars[spec().scalars[i].name] = std::ldexp(scalars[i].ToDouble(), -unit);
  }
  for (size_t p = 0; p < spec().parts.size(); ++p) {
    std::vector<Share> shares;
    int64_t nonzeros = 0, lost = 0, updates = 0;
    for (auto& [base, partial] : gathered_) {
      PartSums& sums = partial.parts[p];
      updates += sums.updates;
      nonzeros += sums.nonzeros;
      lost += sums.lost_nonzeros;
      shares.push_back({&sums, factors[shares.size()], base});
    }
    ServerInput::Part& made = input.parts.emplace_back();
    made.name = spec().parts[p].name;
    if (nonzeros > 0) made.lost_fraction = static_cast<double>(lost) / static_cast<double>(nonzeros);
    if (updates > 0 || without) RIVULET_RETURN_IF_ERROR(FinishPart(p, shares, input, made));
  }
  return input;
}

Status Gathering::BadValue(const UpdateView& update, size_t p, int64_t index, float value) const {
  const PartSpec& part = spec().parts[p];
  if (!std::isfinite(value)) {
    return InvalidArgument("the update of task '{}' has {} at element {} of its {}; its training diverged", update.task,
                           std::isnan(value) ? "NaN" : "infinity", index, part.name);
  }
  return InvalidArgument(
      "the update of task '{}' has {} at element {} of its {}, beyond ±2^{}; raise server.value_bits if that is "
      "no error",
      update.task, value, index, part.name, part.value_bits);
}

Status Gathering::CheckNorm(const UpdateView& update, std::span<const FoldState> folds) const {
  double squares = 0;
  for (const FoldState& fold : folds) squares += fold.Norm() * fold.Norm();
  const auto measured = [](const ScalarSpec& scalar) { return scalar.name == kSquaredNorm; };
  if (squares > kMostMeasured && std::ranges::any_of(spec().scalars, measured)) {
    return InvalidArgument(
        "the update of task '{}' has the norm {}, and its square is summed, which is at most 2^32 − 1; its training "
        "diverged, or client.optimizer.learning_rate is too high",
        update.task, std::sqrt(squares));
  }
  if (spec().most_norm == 0) return absl::OkStatus();
  const double norm = std::sqrt(squares);
  if (norm <= spec().most_norm * (1 + kNormRounding)) return absl::OkStatus();
  return InvalidArgument(
      "the update of task '{}' has the norm {}, more than the {} of privacy.clip; its client does not clip",
      update.task, norm, spec().most_norm);
}

bool Gathering::Folded(const TaskId& task) const {
  return std::any_of(gathered_.begin(), gathered_.end(),
                     [&](const auto& gathered) { return gathered.second.tasks.contains(task); });
}

StatusOr<std::vector<const PartView*>> Gathering::CheckForm(const UpdateView& update, const Weights& weights) const {
  RIVULET_CHECK(weights.parts.size() == spec().parts.size() && weights.scalars.size() == spec().scalars.size());
  if (update.task.empty()) return InvalidArgument("an update names no task");
  RIVULET_RETURN_IF_ERROR(CheckBase(update.base_version));
  std::vector<const PartView*> parts(spec().parts.size());
  for (const PartView& part : update.parts) {
    const PartSpec* owner = spec().Find(part.name);
    if (owner == nullptr) {
      return InvalidArgument("the update of task '{}' has a part '{}', which the plan does not take", update.task,
                             part.name);
    }
    const PartView*& place = parts[static_cast<size_t>(owner - spec().parts.data())];
    if (place != nullptr) return InvalidArgument("the update of task '{}' has two parts '{}'", update.task, part.name);
    place = &part;
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    const PartSpec& part = spec().parts[p];
    if (parts[p] == nullptr && !part.optional) {
      return InvalidArgument("the update of task '{}' has no part '{}'", update.task, part.name);
    }
    RIVULET_RETURN_IF_ERROR(CheckOnlyWhere(update, part, parts[p] != nullptr));
    if (parts[p] == nullptr) continue;
    RIVULET_RETURN_IF_ERROR(CheckSize(update, *parts[p], p));
    RIVULET_RETURN_IF_ERROR(CheckWeight(update, weights.parts[p], spec().weight_bound(part)));
  }
  // An update without any of these parts would be counted but change nothing.
  if (std::ranges::all_of(parts, [](const PartView* part) { return part == nullptr; }) && !parts.empty()) {
    return InvalidArgument("the update of task '{}' has none of the parts that the plan takes", update.task);
  }
  for (size_t i = 0; i < spec().scalars.size(); ++i) {
    const std::string& name = spec().scalars[i].name;
    RIVULET_RETURN_IF_ERROR(CheckWeight(update, weights.scalars[i], spec().max_weight << spec().weight_fraction_bits));
    if (name == kSquaredNorm) continue;
    const auto found = update.scalars.find(name);
    if (found == update.scalars.end()) {
      return InvalidArgument("the update of task '{}' does not say its {}, which the plan sums", update.task, name);
    }
    if (!WideSum::Takes(found->second)) {
      return InvalidArgument("the update of task '{}' has {} = {}; a summed number must be between -2^32 and 2^32",
                             update.task, name, found->second);
    }
  }
  for (const auto& [name, value] : update.scalars) {
    if (!std::isfinite(value)) {
      return InvalidArgument("the update of task '{}' reports {} = {}, which is not a number to report", update.task,
                             name, value);
    }
  }
  return parts;
}

Status Gathering::CheckOnlyWhere(const UpdateView& update, const PartSpec& part, bool there) {
  if (!part.only_where) return absl::OkStatus();
  const auto& [scalar, value] = *part.only_where;
  const auto said = update.scalars.find(scalar);
  if (said == update.scalars.end()) {
    return InvalidArgument("the update of task '{}' does not say its {}, by which it has part '{}' or not", update.task,
                           scalar, part.name);
  }
  if (there == IsIn(part, update.scalars)) return absl::OkStatus();
  return InvalidArgument("the update of task '{}' says {} = {} and has {}part '{}', which is of those that say {}",
                         update.task, scalar, said->second, there ? "" : "no ", part.name, value);
}

Status Gathering::CheckSize(const UpdateView& update, const PartView& part, size_t p) const {
  const PartSpec& owner = spec().parts[p];
  if (part.device_part != nullptr && !TakesDeviceParts()) {
    return InvalidArgument("the {} of task '{}' is on a device, and the rule '{}' reads every value on the host",
                           part.name, update.task, spec().rule);
  }
  if (part.runs.empty() && part.made == nullptr && part.device_part == nullptr) {
    const Status status = codecs_[p]->Check(part.data);
    if (status.ok()) return status;
    return Annotate(status, fmt::format("the {} of task '{}'", part.name, update.task));
  }
  int64_t elements = part.made != nullptr          ? part.made->elements()
                     : part.device_part != nullptr ? part.device_part->elements()
                                                   : 0;
  for (const FloatRun& run : part.runs) elements += run.count;
  if (elements != owner.elements || !part.data.empty()) {
    return InvalidArgument("the {} of task '{}' has {} values in runs and {} bytes where {} values belong", part.name,
                           update.task, elements, part.data.size(), owner.elements);
  }
  // Aggregating the values without encoding them would give other bits than updates that other clients send.
  if (!codecs_[p]->transparent() && (part.device_part == nullptr || part.device_part->codec() != owner.codec)) {
    return InvalidArgument("the {} of task '{}' is not encoded; the plan's codec of it is '{}'", part.name, update.task,
                           owner.codec);
  }
  return absl::OkStatus();
}

Status Gathering::CheckWeight(const UpdateView& update, int64_t weight, int64_t bound) const {
  const int fraction_bits = spec().weight_fraction_bits;
  if (weight < 1) {
    return InvalidArgument("the update of task '{}' weighs {}; a weight is at least {}", update.task, weight,
                           std::ldexp(1.0, -fraction_bits));
  }
  if (weight <= bound) return absl::OkStatus();
  return InvalidArgument("the update of task '{}' weighs {}, more than server.max_weight = {}; raise server.max_weight",
                         update.task, std::ldexp(static_cast<double>(weight), -fraction_bits), spec().max_weight);
}

Status Gathering::CheckCounts(const PartSpec& part, const PartSums& sums, int64_t tasks) const {
  if (sums.updates < 0 || sums.updates > tasks || (sums.updates < tasks && !part.optional)) {
    return InvalidArgument("a partial sum of {} updates claims {} of part '{}'", tasks, sums.updates, part.name);
  }
  const int64_t most = sums.updates * spec().weight_bound(part);
  if (sums.weight_sum < sums.updates || sums.weight_sum > most) {
    return InvalidArgument("a partial sum of {} updates claims the weight {}, which is not between {} and {}",
                           sums.updates, sums.weight_sum, sums.updates, most);
  }
  if (sums.lost_nonzeros < 0 || sums.lost_nonzeros > sums.nonzeros || sums.nonzeros / part.elements > sums.updates) {
    return InvalidArgument("a partial counts {} lost of {} non-zero values, which cannot be", sums.lost_nonzeros,
                           sums.nonzeros);
  }
  return absl::OkStatus();
}

// Without staleness factors, all updates must start from one version.
Status Gathering::CheckBase(int64_t base_version) const {
  if (spec().staleness_bits > 0) return absl::OkStatus();
  for (const auto& [base, partial] : gathered_) {
    if (base != base_version && !partial.empty()) {
      return InvalidArgument(
          "an update from version {} cannot join those from version {}: the plan takes none that are stale",
          base_version, base);
    }
  }
  return absl::OkStatus();
}

Status Gathering::CheckRoom(size_t more) const {
  size_t folded = 0;
  for (const auto& [base, partial] : gathered_) folded += partial.tasks.size();
  if (folded + more > static_cast<size_t>(spec().updates_per_version)) {
    return ResourceExhausted("{} updates were folded and {} more would exceed the {} of a version", folded, more,
                             spec().updates_per_version);
  }
  return absl::OkStatus();
}

// Divides block by block: initialising the memory with zeros first would be a second pass over it.
void ServerInput::Part::Divide() {
  if (undivided == nullptr) return;
  const int64_t elements = undivided->elements();
  mean.reserve(static_cast<size_t>(elements));
  std::array<float, 4096> means;
  for (int64_t first = 0; first < elements; first += std::ssize(means)) {
    const auto block = std::span(means).first(static_cast<size_t>(std::min(std::ssize(means), elements - first)));
    undivided->Divide(first, block);
    mean.insert(mean.end(), block.begin(), block.end());
  }
  undivided.reset();
}

const ServerInput::Part* ServerInput::Find(std::string_view part) const {
  for (const Part& candidate : parts) {
    if (candidate.name == part) return &candidate;
  }
  return nullptr;
}

}  // namespace rivulet
