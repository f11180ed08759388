#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/large_pages.h"
#include "federated/random/streams.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

std::vector<float> Values(const Model& model, const char* name) {
  for (const Slice& slice : model.layout().slices()) {
    if (slice.name != name) continue;
    const auto values = model.tensor(slice).flat<float>();
    return {values.begin(), values.end()};
  }
  return {};
}

const float* Floats(const Model& model) { return reinterpret_cast<const float*>(model.arena().data()); }

std::shared_ptr<Model> ModelOf(int64_t elements) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{elements}}, Segment::kTrainable}};
  return std::make_shared<Model>(std::make_shared<const ModelLayout>(*ModelLayout::Create(variables)));
}

StatusOr<std::shared_ptr<const Model>> StepOf(std::shared_ptr<const Model> base, const std::vector<float>& mean,
                                              double learning_rate) {
  RIVULET_ASSIGN_OR_RETURN(const auto sgd, ServerOptimizer::Create({"sgd"}));
  RIVULET_ASSIGN_OR_RETURN(const ServerState first, FirstState(std::move(base), *sgd));
  RIVULET_ASSIGN_OR_RETURN(const ServerState next, NextState(first, *sgd, learning_rate, mean));
  EXPECT_EQ(next.flats, nullptr);
  EXPECT_EQ(next.digest, next.model->ComputeDigest());
  return next.model;
}

TEST(ServerSgdTest, TwoTensors_TrainedOnesMoveAndFrozenOnesStay) {
  const VariableSpec variables[] = {{"statistics", {DType::kFloat32, Shape{2}}, Segment::kShared},
                                    {"fixed", {DType::kFloat32, Shape{1}}, Segment::kFrozen},
                                    {"counter", {DType::kInt64, Shape{}}, Segment::kFrozen},
                                    {"w", {DType::kFloat32, Shape{3}}, Segment::kTrainable}};
  const auto base = std::make_shared<Model>(std::make_shared<const ModelLayout>(*ModelLayout::Create(variables)));
  for (const Slice& slice : base->layout().slices()) {
    if (slice.name == "counter") {
      base->tensor(slice).flat<int64_t>()[0] = int64_t{1} << 40;
    } else {
      for (float& value : base->tensor(slice).flat<float>()) value = 1;
    }
  }
  // Wire order: trainable first.
  const auto model = StepOf(base, std::vector<float>{1, 2, 3, 10, 20}, 0.5);
  ASSERT_OK(model);
  EXPECT_EQ(Values(**model, "w"), (std::vector<float>{1.5f, 2.0f, 2.5f}));
  EXPECT_EQ(Values(**model, "statistics"), (std::vector<float>{6, 11}));
  EXPECT_EQ(Values(**model, "fixed"), (std::vector<float>{1}));
  EXPECT_EQ((*model)->tensor(*(*model)->layout().Find("counter")).flat<int64_t>()[0], int64_t{1} << 40);
  EXPECT_EQ(Values(*base, "w"), (std::vector<float>{1, 1, 1}));
}

// As large as those that are hashed while they are made; the last stretch of a tensor is a short one.
TEST(ServerSgdTest, LargeModel_MovesWholeAndHasItsDigest) {
  constexpr int64_t kElements = 300'001;
  const auto base = ModelOf(kElements);
  std::vector<float> mean(kElements);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(i);
  const auto model = StepOf(base, mean, 2);
  ASSERT_OK(model);
  const std::vector<float> values = Values(**model, "w");
  for (size_t i = 0; i < mean.size(); ++i) ASSERT_EQ(values[i], 2 * mean[i]) << i;
  mean.back() = std::numeric_limits<float>::infinity();
  EXPECT_THAT(StepOf(base, mean, 1), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// Two tensors, the first of several stretches: each is asked for once, in order, but by a server that has to see all.
TEST(ServerSgdTest, MeanThatIsMadeWhereItIsRead_GivesTheSameVersion) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{150'001}}, Segment::kTrainable},
                                    {"b", {DType::kFloat32, Shape{5}}, Segment::kTrainable}};
  const auto model =
      std::make_shared<const Model>(std::make_shared<const ModelLayout>(*ModelLayout::Create(variables)));
  std::vector<float> mean(150'006);
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = 1e-3f * static_cast<float>(i % 977);
  for (const char* name : {"sgd", "extrapolation"}) {
    ASSERT_OK_AND_ASSIGN(const auto server, ServerOptimizer::Create({name}));
    ASSERT_OK_AND_ASSIGN(const ServerState first, FirstState(model, *server));
    const VersionSums sums = {.scalars = {{"squared_norm", 1e6}}};
    ASSERT_OK_AND_ASSIGN(const ServerState whole, NextState(first, *server, 0.5, mean, {}, sums));
    int64_t made = 0;
    const auto make = [&](int64_t begin, std::span<float> values) {
      EXPECT_EQ(begin, made);
      std::ranges::copy_n(mean.begin() + begin, std::ssize(values), values.begin());
      made += std::ssize(values);
    };
    ASSERT_OK_AND_ASSIGN(const ServerState streamed,
                         NextState(first, *server, 0.5, VersionMean(std::ssize(mean), make), {}, sums));
    EXPECT_EQ(made, std::ssize(mean)) << name;
    EXPECT_EQ(streamed.digest, whole.digest) << name;
    EXPECT_EQ(streamed.digest, streamed.model->ComputeDigest()) << name;
  }
  ASSERT_OK_AND_ASSIGN(const auto sgd, ServerOptimizer::Create({"sgd"}));
  ASSERT_OK_AND_ASSIGN(const ServerState first, FirstState(model, *sgd));
  ASSERT_OK_AND_ASSIGN(const ServerState still, NextState(first, *sgd, 1, std::span<const float>()));
  EXPECT_EQ(still.digest, first.digest) << "no update had it: it is zero";
}

// Sums of 64 bits of `elements` values, in memory of their own, whose first half the next model may take.
VersionMean MeanOverSums(const std::vector<float>& mean) {
  auto sums = std::make_shared<std::vector<int64_t, LargePages<int64_t>>>(mean.size());
  for (size_t i = 0; i < mean.size(); ++i) (*sums)[i] = static_cast<int64_t>(std::ldexp(mean[i], 20));
  auto* const data = reinterpret_cast<std::byte*>(sums->data());
  const auto make = [sums](int64_t begin, std::span<float> values) {
    auto sum = sums->begin() + begin;
    for (float& value : values) value = static_cast<float>(std::ldexp(static_cast<double>(*sum++), -20));
  };
  return VersionMean(std::ssize(mean), make, {{sums, data}, 8 * mean.size(), 8});
}

// Padding makes a model of small tensors run ahead of the sums; personal and frozen tensors are in its arena and in no
// sum.
TEST(ServerSgdTest, NextModelOverTheSums_IsTheSameVersion) {
  std::vector<VariableSpec> variables;
  for (int i = 0; i < 300; ++i)
    variables.push_back({fmt::format("small/{}", i), {DType::kFloat32, Shape{1}}, Segment::kTrainable});
  variables.push_back({"large", {DType::kFloat32, Shape{700'001}}, Segment::kTrainable});
  variables.push_back({"mine", {DType::kFloat32, Shape{50'003}}, Segment::kLocal});
  variables.push_back({"statistics", {DType::kFloat32, Shape{11}}, Segment::kShared});
  variables.push_back({"fixed", {DType::kFloat32, Shape{1'001}}, Segment::kFrozen});
  const auto model = std::make_shared<Model>(std::make_shared<const ModelLayout>(*ModelLayout::Create(variables)));
  for (const Slice& slice : model->layout().slices()) {
    for (float& value : model->tensor(slice).flat<float>()) value = static_cast<float>(&value - Floats(*model)) * 1e-3f;
  }
  std::vector<float> mean(static_cast<size_t>(model->layout().update_elements()));
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = std::ldexp(static_cast<float>(i % 9'973), -12);
  for (const char* name : {"sgd", "momentum", "extrapolation"}) {
    ASSERT_OK_AND_ASSIGN(const auto server, ServerOptimizer::Create({name}));
    ASSERT_OK_AND_ASSIGN(const ServerState first, FirstState(model, *server));
    const VersionSums sums = {.scalars = {{"squared_norm", 1e9}}};
    ASSERT_OK_AND_ASSIGN(const ServerState whole, NextState(first, *server, 0.5, mean, {}, sums));
    VersionMean over = MeanOverSums(mean);
    const std::byte* const memory = over.room().data.get();
    ASSERT_OK_AND_ASSIGN(const ServerState next, NextState(first, *server, 0.5, std::move(over), {}, sums));
    EXPECT_EQ(next.model->arena().data(), memory) << name;
    EXPECT_EQ(next.digest, whole.digest) << name;
    EXPECT_EQ(next.digest, next.model->ComputeDigest()) << name;
    EXPECT_TRUE(std::ranges::equal(next.model->arena(), whole.model->arena())) << name << ": padding and mine too";
  }
}

TEST(ServerSgdTest, NextModelThatIsLongerThanTheSums_HasItsOwnMemory) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{100'000}}, Segment::kTrainable},
                                    {"fixed", {DType::kFloat32, Shape{400'000}}, Segment::kFrozen}};
  const auto model = std::make_shared<Model>(std::make_shared<const ModelLayout>(*ModelLayout::Create(variables)));
  ASSERT_OK_AND_ASSIGN(const auto server, ServerOptimizer::Create({"sgd"}));
  ASSERT_OK_AND_ASSIGN(const ServerState first, FirstState(model, *server));
  const std::vector<float> mean(100'000, 0.25f);
  ASSERT_OK_AND_ASSIGN(const ServerState whole, NextState(first, *server, 1, mean));
  VersionMean over = MeanOverSums(mean);
  const std::byte* const memory = over.room().data.get();
  ASSERT_OK_AND_ASSIGN(const ServerState next, NextState(first, *server, 1, std::move(over)));
  EXPECT_NE(next.model->arena().data(), memory);
  EXPECT_EQ(next.digest, whole.digest);
}

TEST(ServerSgdTest, LearningRateOne_IsTheFloatSum) {
  const auto base = ModelOf(1000);
  Draws draws(StreamFor(3, "", Purpose::kSynthesize), 0);
  std::vector<float> delta(1000), expected(1000);
  auto values = base->tensor(base->layout().slices()[0]).flat<float>();
  for (size_t i = 0; i < delta.size(); ++i) {
    values[i] = static_cast<float>(draws.Normal());
    delta[i] = static_cast<float>(draws.Normal()) * 0.01f;
    expected[i] = values[i] + delta[i];
  }
  const auto model = StepOf(base, delta, 1);
  ASSERT_OK(model);
  EXPECT_EQ(Values(**model, "w"), expected);
}

TEST(ServerSgdTest, AnyLearningRate_IsComputedInDoubleAndRoundedOnce) {
  const auto base = ModelOf(1003);
  Draws draws(StreamFor(4, "", Purpose::kSynthesize), 0);
  std::vector<float> delta(1003), expected(1003);
  auto values = base->tensor(base->layout().slices()[0]).flat<float>();
  for (size_t i = 0; i < delta.size(); ++i) {
    values[i] = static_cast<float>(draws.Normal());
    delta[i] = static_cast<float>(draws.Normal());
    const volatile double step = 0.1 * static_cast<double>(delta[i]);  // rounded: no product is fused into the sum
    expected[i] = static_cast<float>(static_cast<double>(values[i]) + step);
  }
  const auto model = StepOf(base, delta, 0.1);
  ASSERT_OK(model);
  EXPECT_EQ(Values(**model, "w"), expected);
}

TEST(ServerSgdTest, OneBadValueAnywhere_IsRefused) {
  const auto base = ModelOf(37);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (size_t i = 0; i < 37; ++i) {
      std::vector<float> delta(37, 1.0f);
      delta[i] = bad;
      EXPECT_THAT(StepOf(base, delta, 1), StatusIs(absl::StatusCode::kFailedPrecondition)) << i;
    }
  }
}

TEST(ServerSgdTest, WrongLength_IsRefused) {
  const auto base = ModelOf(3);
  EXPECT_THAT(StepOf(base, std::vector<float>{1, 2}, 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ServerSgdTest, Overflow_IsRefusedNamingTheTensor) {
  const auto base = ModelOf(3);
  const auto model = StepOf(base, std::vector<float>{0, 1000, 0}, 1e38);
  EXPECT_THAT(model, StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("not finite in 'w'")));
}

}  // namespace
}  // namespace rivulet
