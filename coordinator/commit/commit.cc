#include "coordinator/commit/commit.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/available_cores.h"
#include "engine/base/check.h"
#include "engine/profile/tracer.h"
#include "federated/server_optimizers/averaged.h"
#include "federated/weights/adapter_pairs.h"

namespace rivulet {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A loss below this has no effect; above it the settings do not fit the model, and a warning is
// due.
constexpr double kToleratedLoss = 0.001;  // of non-zero coordinates, to rounding

// The mean as the server's step reads it. `part` must outlive it.
VersionMean MeanOf(const ServerInput::Part& part) {
  if (part.undivided == nullptr) return VersionMean(part.mean);
  const auto& sums = part.undivided;
  const std::span<std::byte> memory = sums->memory();
  VersionMean::Room room;
  if (!memory.empty()) {
    room = {{sums, memory.data()}, memory.size(), memory.size() / static_cast<size_t>(sums->elements())};
  }
  return VersionMean(
      sums->elements(), [of = sums.get()](int64_t first, std::span<float> means) { of->Divide(first, means); },
      std::move(room));
}

// Adds noise before any division or read. A private run's updates have one part, which gets the noise.
Status AddNoise(const ServerUpdate& update, const ServerInput& input) {
  const std::span<int64_t> sums = input.parts.size() == 1 && input.parts[0].undivided != nullptr
                                      ? input.parts[0].undivided->sums()
                                      : std::span<int64_t>();
  if (sums.empty()) {
    return FailedPrecondition("noise is added to one part's sums of 64 bits, and the updates of version {} have others",
                              update.version);
  }
  return update.noise->Add(static_cast<uint64_t>(update.version), sums, AvailableCores());
}

// The version's sums of scalars that rules of numbers may read.
StatusOr<Scalars> SumsForNumbers(const ServerUpdate& update, const ServerInput& input) {
  Scalars sums(input.scalars.begin(), input.scalars.end());
  if (update.noise == nullptr || !update.noise->counts()) return sums;
  double& count = sums.at(kUnclipped);
  RIVULET_ASSIGN_OR_RETURN(count, update.noise->AddToCount(static_cast<uint64_t>(update.version), count));
  return sums;
}

// Updates were sent as multiples of `unit`, which is the same for all clients.
void MultiplyMean(ServerInput::Part& part, double unit) {
  part.Divide();
  for (float& value : part.mean) value = static_cast<float>(value * unit);
}

// The base that the rule "stack" needs, from the previous version.
std::shared_ptr<const AggregationBase> BaseForStack(const Model& model) {
  auto base = std::make_shared<AggregationBase>();
  const ModelLayout& layout = model.layout();
  base->values.resize(static_cast<size_t>(layout.update_elements()));
  for (const Slice& slice : layout.slices()) {
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
    std::ranges::copy(model.tensor(slice).flat<float>(), base->values.begin() + slice.wire_offset);
  }
  for (const AdapterPair& pair : AdapterPairsOf(layout))
    base->pairs.push_back(
        {pair.a->wire_offset, pair.b->wire_offset, pair.rows, pair.rank, pair.columns, pair.transposed});
  return base;
}

// Checks a model after the server's own training; the clients' updates were checked at the server's step.
Status CheckFinite(const Model& model) {
  for (const Slice& slice : model.layout().slices()) {
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
    const auto values = model.tensor(slice).flat<float>();
    if (std::ranges::none_of(values, IsNotFinite)) continue;
    return FailedPrecondition("the new model is not finite in '{}'; lower server.fine_tune.learning_rate", slice.name);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<MadeVersion> MakeVersion(const ServerState& base, std::unique_ptr<Aggregation> aggregation,
                                  const Staleness& staleness, const ServerUpdate& update, Evaluator* evaluator,
                                  Tracer* tracer) {
  const auto begin = std::chrono::steady_clock::now();
  MadeVersion made;
  Scalars sums;
  std::optional<double> stacked;  // the share that the rule "stack" dropped
  {
    const bool stacks = aggregation->spec().rule == "stack";
    if (stacks) aggregation->StartFrom(BaseForStack(*base.model));
    // Sums of 64 bits have twice the model's size; they are freed before an evaluation.
    RIVULET_ASSIGN_OR_RETURN(ServerInput input, std::move(*aggregation).FinishUndivided(staleness));
    aggregation.reset();
    const bool changed = update.mechanisms != nullptr && !update.mechanisms->empty();
    const ServerInput::Part* const delta = input.Find("delta");
    RIVULET_CHECK(delta != nullptr, "a run of models aggregates no delta");
    if (update.noise != nullptr) RIVULET_RETURN_IF_ERROR(AddNoise(update, input));
    RIVULET_ASSIGN_OR_RETURN(sums, SumsForNumbers(update, input));
    const std::optional<double> unit = update.numbers != nullptr ? update.numbers->UnitOf(*base.numbers) : std::nullopt;
    std::vector<std::span<float>> means;
    PartMeans others;
    for (ServerInput::Part& part : input.parts) {
      if (unit && &part == delta) MultiplyMean(part, *unit);
      if (changed || &part != delta) part.Divide();
      means.emplace_back(part.mean);
      made.lost_fraction = std::max(made.lost_fraction, part.lost_fraction);
      made.dropped_share = std::max(made.dropped_share, part.dropped_share);
      if (&part != delta) others.emplace(part.name, part.mean);
    }
    if (stacks) stacked = made.dropped_share;
    if (changed) RIVULET_RETURN_IF_ERROR(update.mechanisms->Apply(update.version, means));
    RIVULET_ASSIGN_OR_RETURN(static_cast<ServerState&>(made),
                             NextState(base, update.optimizer, update.learning_rate, MeanOf(*delta), others,
                                       {input.scalars, delta->denominator, input.updates}));
  }
  if (update.training != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(made.model, update.training->Train(made.model, update.version));
    RIVULET_RETURN_IF_ERROR(CheckFinite(*made.model));
    made.digest = made.model->ComputeDigest();
  }
  if (update.numbers != nullptr) {
    std::vector<ReportedLoss> told = update.told;
    std::ranges::sort(told, {}, &ReportedLoss::task);
    made.numbers = std::make_shared<const ServerNumbers>(update.numbers->Next(*base.numbers, told, sums));
  }
  made.aggregate_seconds = SecondsSince(begin);
  if (evaluator != nullptr) {
    TraceSpan evaluating(tracer, "phase", "evaluate");
    const auto evaluation = std::chrono::steady_clock::now();
    RIVULET_ASSIGN_OR_RETURN(made.central, evaluator->Evaluate(*MeasuredModel(made)));
    for (const std::string& name : update.optimizer.Models()) {
      const auto model = ModelOfFlat(made, fmt::format("{}{}", kServerPrefix, name));
      RIVULET_ASSIGN_OR_RETURN(const auto measures, evaluator->Evaluate(*model));
      for (const auto& [measure, value] : measures) made.central[fmt::format("{}/{}", name, measure)] = value;
    }
    made.evaluate_seconds = SecondsSince(evaluation);
  }
  if (stacked) made.central["server/lora_dropped"] = Measure{.value = *stacked};
  return made;
}

std::string LossWarning(double lost_fraction, const AggregationSpec& spec) {
  if (lost_fraction <= kToleratedLoss) return "";
  return fmt::format(
      "{:.2f} % of the non-zero coordinates of the updates are smaller than the resolution of the sum and were lost; "
      "lower server.value_bits ({}) or server.max_weight ({})",
      100 * lost_fraction, spec.parts.at(0).value_bits, spec.max_weight);
}

}  // namespace rivulet
