// Updates for tests of aggregations, and helpers that inspect an aggregation.
#pragma once

#include <hwy/highway.h>

#include <memory>
#include <string>
#include <vector>

#include "federated/aggregation/aggregation.h"
#include "federated/random/streams.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// An update that owns the memory of its view.
struct TestUpdate {
  TaskId task;
  std::vector<float> delta;
  int64_t weight = 1;
  Scalars scalars = {};
  std::vector<PartView> parts = {};

  UpdateView view() {
    parts = {{.name = "delta", .data = std::as_bytes(std::span(delta))}};
    return {task, 0, parts, scalars};
  }
  Weights weights() const { return {.parts = {weight}}; }
};

inline AggregationSpec Spec(int64_t elements, int64_t updates = 10) {
  AggregationSpec spec;
  spec.parts = {{.elements = elements}};
  spec.updates_per_version = updates;
  return spec;
}

inline std::unique_ptr<Aggregation> Make(const AggregationSpec& spec) {
  auto aggregation = Aggregation::Create(spec);
  EXPECT_OK(aggregation);
  return std::move(aggregation).value();
}

inline std::vector<TestUpdate> RandomUpdates(int count, size_t elements, float magnitude = 0.01f) {
  std::vector<TestUpdate> updates;
  for (int i = 0; i < count; ++i) {
    Draws draws(StreamFor(5, "", Purpose::kSynthesize, static_cast<uint32_t>(i)), 0);
    TestUpdate update;
    update.task = fmt::format("task-{:03}", i);
    update.weight = 1 + static_cast<int64_t>(draws.Below(65536));
    for (size_t e = 0; e < elements; ++e) update.delta.push_back(static_cast<float>(draws.Normal()) * magnitude);
    update.scalars = {{"train_loss", draws.Uniform()}, {"steps", 60.0}};
    updates.push_back(std::move(update));
  }
  return updates;
}

inline int FractionBits(const AggregationSpec& spec) { return spec.fraction_bits(spec.parts[0]); }

// Returns the aggregation's partial sum, all of one base version; empty sums without updates.
inline Partial Saved(const Aggregation& aggregation) {
  std::vector<Partial> partials = aggregation.Save();
  EXPECT_LE(partials.size(), 1u);
  return partials.empty() ? EmptyPartial(aggregation.spec(), 0) : std::move(partials[0]);
}

inline std::string Bytes(const Aggregation& aggregation) {
  std::string bytes;
  for (const Partial& partial : aggregation.Save()) bytes += BytesOf(aggregation.spec(), partial);
  return bytes;
}

inline StatusOr<Partial> Read(const AggregationSpec& spec, std::string_view bytes) {
  PartialReader reader(spec);
  RIVULET_RETURN_IF_ERROR(reader.Append(std::as_bytes(std::span(bytes))));
  return std::move(reader).Finish();
}

// Runs `body` once for every vector target of this CPU.
template <typename Body>
void OnEveryTarget(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace rivulet::testing
