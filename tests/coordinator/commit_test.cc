#include "coordinator/commit/commit.h"

#include <algorithm>
#include <limits>

#include "test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class MakeVersionTest : public ::testing::Test {
 protected:
  MakeVersionTest()
      : base_(*FirstState(*parts_.initial_model(), *sgd_)), aggregation_(*Aggregation::Create(parts_.aggregation)) {}
  void Fold(const TaskId& task, float value, int64_t weight) {
    const std::vector<float> delta(3, value);
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
    ASSERT_OK(aggregation_->Fold({task, 0, std::span(&part, 1), {}}, {.parts = {weight}}));
  }
  static float FirstOf(const Model& model) { return *reinterpret_cast<const float*>(model.arena().data()); }

  RunParts parts_ = TinyParts(3, 2);
  const std::unique_ptr<const ServerOptimizer> sgd_ = *ServerOptimizer::Create({"sgd"});
  ServerState base_;  // ones
  std::unique_ptr<Aggregation> aggregation_;
};

TEST_F(MakeVersionTest, TwoUpdates_GiveTheWeightedMeanItsDigestAndWhatItIsWorth) {
  FakeEvaluator evaluator;
  Fold("a", 1, 10);
  Fold("b", 4, 20);
  const auto made = MakeVersion(base_, std::move(aggregation_), nullptr, {*sgd_, 0.5}, &evaluator, nullptr);
  ASSERT_OK(made);
  EXPECT_EQ(FirstOf(*made->model), 2.5f) << "1 + 0.5 × (10 × 1 + 20 × 4) / 30";
  EXPECT_EQ(made->digest, made->model->ComputeDigest());
  EXPECT_EQ(made->central.at("test/loss").value, 2.5);
  EXPECT_EQ(made->lost_fraction, 0);
  EXPECT_EQ(FirstOf(*base_.model), 1) << "the version before stays";
}

TEST_F(MakeVersionTest, AverageOfVersions_IsMeasuredInThePlaceOfTheNewest) {
  FakeEvaluator evaluator;
  ASSERT_OK_AND_ASSIGN(const auto averaged, ServerOptimizer::Create({"sgd"}, 0.75));
  ASSERT_OK_AND_ASSIGN(const ServerState base, FirstState(base_.model, *averaged));
  Fold("a", 3, 10);
  ASSERT_OK_AND_ASSIGN(const MadeVersion made,
                       MakeVersion(base, std::move(aggregation_), nullptr, {*averaged, 1}, &evaluator, nullptr));
  EXPECT_EQ(FirstOf(*made.model), 4);
  EXPECT_EQ(made.central.at("test/loss").value, 0.75 * 1 + 0.25 * 4);
}

// Three weights of ones: what is added to their mean is added to them.
TEST_F(MakeVersionTest, MechanismsOfTheMean_ActBeforeTheStepAndOncePerVersion) {
  const std::vector<PieceSpec> noise = {{"noise", {{"deviation", 2.0}, {"source", "seeded"}}}};
  ASSERT_OK_AND_ASSIGN(const MeanMechanisms mechanisms, MeanMechanisms::Create(noise, 7));
  Fold("a", 1, 10);
  ASSERT_OK_AND_ASSIGN(const MadeVersion made, MakeVersion(base_, std::move(aggregation_), nullptr,
                                                           {*sgd_, 0.5, &mechanisms, 3}, nullptr, nullptr));
  std::vector<float> mean(3, 1);
  const std::span<float> part = mean;
  ASSERT_OK(mechanisms.Apply(3, {&part, 1}));
  EXPECT_NE(mean[0], 1);
  EXPECT_EQ(FirstOf(*made.model), static_cast<float>(1 + 0.5 * static_cast<double>(mean[0])));
}

// A long one, which takes the sums' memory; the next round's sums take that of the version before.
TEST(MakeLongVersionTest, Versions_TakeTheMemoryOfTheirSums) {
  constexpr int64_t kElements = 1'500'000;
  const RunParts parts = TinyParts(kElements, 2);
  ASSERT_OK_AND_ASSIGN(const auto sgd, ServerOptimizer::Create({"sgd"}));
  ASSERT_OK_AND_ASSIGN(const auto initial, parts.initial_model());
  ASSERT_OK_AND_ASSIGN(ServerState state, FirstState(initial, *sgd));
  const std::vector<float> delta(kElements, 0.5f);
  const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
  std::vector<const std::byte*> memory;
  for (int round = 0; round < 4; ++round) {
    ASSERT_OK_AND_ASSIGN(auto aggregation, Aggregation::Create(parts.aggregation));
    ASSERT_OK(aggregation->Fold({"a", round, std::span(&part, 1), {}}, {.parts = {3}}));
    ASSERT_OK_AND_ASSIGN(const MadeVersion made,
                         MakeVersion(state, std::move(aggregation), nullptr, {*sgd, 1}, nullptr, nullptr));
    state = made;
    memory.push_back(state.model->arena().data());
    const auto values = state.model->tensor(state.model->layout().slices()[0]).flat<float>();
    const float expected = 1 + 0.5f * static_cast<float>(round + 1);
    ASSERT_TRUE(std::ranges::all_of(values, [=](float value) { return value == expected; })) << round;
  }
  EXPECT_NE(memory[1], memory[0]);
  EXPECT_EQ(memory[2], memory[0]) << "two arrays are enough";
  EXPECT_EQ(memory[3], memory[1]);
}

TEST_F(MakeVersionTest, WithoutEvaluator_IsNotMeasured) {
  Fold("a", 1, 10);
  const auto made = MakeVersion(base_, std::move(aggregation_), nullptr, {*sgd_, 1}, nullptr, nullptr);
  ASSERT_OK(made);
  EXPECT_TRUE(made->central.empty());
  EXPECT_EQ(made->evaluate_seconds, 0);
}

TEST_F(MakeVersionTest, NothingFolded_IsRefused) {
  EXPECT_THAT(MakeVersion(base_, std::move(aggregation_), nullptr, {*sgd_, 1}, nullptr, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(MakeVersionTest, NotFinite_IsRefusedNamingTheTensorAndIsNotMeasured) {
  FakeEvaluator evaluator;
  Fold("a", 1000, 10);
  EXPECT_THAT(MakeVersion(base_, std::move(aggregation_), nullptr, {*sgd_, 1e38}, &evaluator, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not finite in 'w'")));
  EXPECT_EQ(evaluator.calls, 0);
}

// Sets every weight to one value.
class SettingTraining final : public ServerTraining {
 public:
  explicit SettingTraining(float value) : value_(value) {}
  StatusOr<std::shared_ptr<const Model>> Train(const std::shared_ptr<const Model>& model, int64_t version) override {
    version_ = version;
    auto trained = std::make_shared<Model>(model->shared_layout());
    for (float& weight : trained->tensor(model->layout().slices()[0]).flat<float>()) weight = value_;
    return trained;
  }
  int64_t version() const { return version_; }

 private:
  const float value_;
  int64_t version_ = 0;
};

TEST_F(MakeVersionTest, TrainingOfTheServer_IsOfWhatTheStepGaveAndBeforeItIsMeasured) {
  FakeEvaluator evaluator;
  SettingTraining training(7);
  Fold("a", 1, 10);
  ASSERT_OK_AND_ASSIGN(const MadeVersion made, MakeVersion(base_, std::move(aggregation_), nullptr,
                                                           {*sgd_, 1, nullptr, 5, &training}, &evaluator, nullptr));
  EXPECT_EQ(training.version(), 5);
  EXPECT_EQ(FirstOf(*made.model), 7);
  EXPECT_EQ(made.digest, made.model->ComputeDigest());
  EXPECT_EQ(made.central.at("test/loss").value, 7);
}

TEST_F(MakeVersionTest, TrainingOfTheServerThatDiverges_IsRefusedNamingTheTensorAndTheKey) {
  SettingTraining training(std::numeric_limits<float>::infinity());
  Fold("a", 1, 10);
  EXPECT_THAT(MakeVersion(base_, std::move(aggregation_), nullptr, {*sgd_, 1, nullptr, 5, &training}, nullptr, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "the new model is not finite in 'w'; lower server.fine_tune.learning_rate"));
}

TEST(LossWarningTest, AboveAThousandth_NamesTheKeysToLower) {
  AggregationSpec spec;
  spec.parts = {{.value_bits = 9}};
  spec.max_weight = 4096;
  EXPECT_EQ(LossWarning(0, spec), "");
  EXPECT_EQ(LossWarning(0.001, spec), "");
  EXPECT_THAT(LossWarning(0.25, spec),
              ::testing::AllOf(HasSubstr("25.00 % of the non-zero coordinates"),
                               HasSubstr("lower server.value_bits (9) or server.max_weight (4096)")));
}

}  // namespace
}  // namespace rivulet
