// Bounds of downloads admit everything that an honest coordinator sends, and not much more.
#include "federated/plan/download_bounds.h"

#include <gtest/gtest.h>

#include <vector>

#include "federated/download/download.h"
#include "federated/states/state_blob.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::LocalPlan;
using testing::LocalScenario;
using testing::PatternModel;

constexpr int64_t kBesideValues = 2 << 20;

TEST(DownloadBounds, ModelFile_FitsWithWhatIsKeptBesideIt) {
  const auto plan = LocalPlan();
  const std::string file = ModelToSafetensors(*PatternModel(*plan), {{"rivulet.name", std::string(10'000, '"')}});
  const int64_t most = MaxModelBytes(*plan->layout());
  EXPECT_GE(most, std::ssize(file));
  EXPECT_LT(most, 2 * std::ssize(file) + kBesideValues);
}

TEST(DownloadBounds, LongNamesOfManyVariables_Fit) {
  std::vector<VariableSpec> variables;
  for (int i = 0; i < 300; ++i) {
    std::string name = fmt::format("{}", i);
    name.resize(1000, '"');  // each is escaped in JSON within JSON
    variables.push_back({name, {DType::kFloat32, Shape{2, 1, 1, 1, 1, 1}}, Segment::kTrainable});
  }
  const auto layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  EXPECT_GE(MaxModelBytes(*layout), std::ssize(ModelToSafetensors(Model(layout), {})));
}

TEST(DownloadBounds, EncodedModel_Fits) {
  const auto plan = LocalPlan();
  for (const char* codec : {"f16", "bf16", "int8", "int4"}) {
    const auto download = Download::Create(codec, plan->layout());
    if (!download.ok() || *download == nullptr) continue;
    const auto sent = (*download)->Send(*PatternModel(*plan), 1, 1);
    ASSERT_OK(sent);
    EXPECT_LE(std::ssize(sent->bytes), MaxModelBytes(*plan->layout())) << codec;
  }
}

TEST(DownloadBounds, Broadcast_HasTheTrainableElements) {
  const auto plan = LocalPlan();
  EXPECT_EQ(MaxBroadcastBytes(*plan->layout()), 4 * plan->layout()->parameters());
}

TEST(DownloadBounds, StateOfAllVectors_Fits) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = "scaffold";
  const auto plan = LocalPlan(scenario);
  ASSERT_TRUE(plan->keeps_state());
  std::vector<float> values(static_cast<size_t>(plan->layout()->parameters()));
  std::vector<NamedState> state;
  for (const StateVector& vector : plan->flat_names().state) state.push_back({vector.name, values});
  std::string blob = WriteState(state);
  AddToState(blob, std::vector<NamedState>{{"delta", values}});
  EXPECT_GE(MaxStateBytes(*plan), std::ssize(blob));
  EXPECT_LT(MaxStateBytes(*plan), 4 * std::ssize(blob) + kBesideValues);
}

// A plan may declare what fits in no memory; a bound that overflowed would be none.
TEST(DownloadBounds, HugeLayout_DoesNotOverflow) {
  std::vector<VariableSpec> variables;
  for (int i = 0; i < 10; ++i) {
    variables.push_back(
        {fmt::format("w{}", i), {DType::kFloat32, Shape{int64_t{1} << 20, int64_t{1} << 20}}, Segment::kTrainable});
  }
  const auto layout = ModelLayout::Create(variables);
  ASSERT_OK(layout);
  EXPECT_GT(MaxModelBytes(*layout), int64_t{40} << 40);
  EXPECT_EQ(MaxBroadcastBytes(*layout), int64_t{40} << 40);
}

}  // namespace
}  // namespace rivulet
