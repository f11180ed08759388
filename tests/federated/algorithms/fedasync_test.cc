// FedAsync compared with NumPy in double, the effect of staleness by hand, and refused settings.
#include "federated/aggregation/staleness.h"
#include "tests/federated/aggregation_updates.h"
#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

Scenario InTime(double rho) {
  Scenario scenario = PixelScenario("fedasync");
  scenario.server.base = "committed";
  scenario.server.learning_rate = 0.75;
  scenario.algorithm.settings["rho"] = rho;
  return scenario;
}

TEST(FedAsync, ThreeRounds_AreNumPysInDouble) {
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(InTime(0.3), 3));
  testing::ExpectReference("fedasync.txt", testing::WeightsOfModel(*run.server.model));
}

TEST(FedAsync, Rho_PullsTowardsTheBase) {
  double before = std::numeric_limits<double>::infinity();
  for (const double rho : {0.0, 0.5, 2.0}) {
    ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(InTime(rho), 1));
    const std::vector<float> base = testing::WeightsOfModel(*testing::FourPixelsBase(*run.plan));
    const std::vector<float> now = testing::WeightsOfModel(*run.server.model);
    double moved = 0;
    for (size_t i = 0; i < base.size(); ++i) moved += std::pow(static_cast<double>(now[i]) - base[i], 2);
    EXPECT_LT(moved, before) << rho;
    before = moved;
  }
}

// Version 9 of one of weight 1, made of models that are so many versions late.
std::vector<float> Mixed(std::vector<testing::TestUpdate> models, const std::vector<int64_t>& late) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{1}}}};
  const auto layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  Scenario scenario;
  scenario.algorithm.name = "fedasync";
  scenario.server.clients_per_round = std::ssize(models);
  scenario.server.learning_rate = 0.5;
  scenario.server.staleness_exponent = 1;
  const StatusOr<Composition> composition = Compose(scenario, *layout);
  EXPECT_OK(composition);
  EXPECT_EQ(composition->policy.base, TaskPolicy::Base::kLatest);
  auto aggregation = testing::Make(composition->aggregation);
  for (size_t u = 0; u < models.size(); ++u) {
    UpdateView view = models[u].view();
    view.base_version = 8 - late[u];
    EXPECT_OK(aggregation->Take(view, models[u].weights()));
  }
  const auto input = std::move(*aggregation).Finish(StalenessOf(9, composition->policy.staleness_exponent));
  EXPECT_OK(input);
  const auto optimizer = ServerOptimizer::Create(composition->server_optimizer);
  EXPECT_OK(optimizer);
  const auto model = std::make_shared<Model>(layout);
  model->tensor(layout->slices()[0]).flat<float>()[0] = 1;
  const ServerInput::Part& delta = *input->Find("delta");
  const auto next = NextState(*FirstState(model, **optimizer), **optimizer, scenario.server.learning_rate, delta.mean,
                              {}, {input->scalars, delta.denominator, input->updates});
  EXPECT_OK(next);
  return testing::WeightsOfModel(*next->model);
}

TEST(FedAsync, ModelsThatAreLate_AreMixedInTheLess) {
  EXPECT_THAT(Mixed({{"a", {3}, 1}}, {0}), ElementsAre(1 + 0.5f * 2));
  EXPECT_THAT(Mixed({{"a", {3}, 1}}, {3}), ElementsAre(1 + 0.5f * 0.25f * 2));
  // Their mean by staleness, (1 · 3 + 1/4 · 8) / (5/4) = 4, by the mean of what they count, 5/8.
  EXPECT_THAT(Mixed({{"a", {3}, 1}, {"b", {8}, 1}}, {0, 3}), ElementsAre(1 + 0.5f * 0.625f * 3));
}

TEST(FedAsync, WhatWouldCutAModelShort_IsRefusedByItsKey) {
  Scenario beyond = InTime(0), clipped = InTime(0), sparse = InTime(0);
  beyond.server.learning_rate = 1.5;
  EXPECT_THAT(ErrorOf(RunPixels(beyond, 1)), HasSubstr("server.learning_rate, which is 1.5 and must be at most 1"));
  clipped.privacy.clip = 1;
  EXPECT_THAT(ErrorOf(RunPixels(clipped, 1)), HasSubstr("privacy.clip would leave little"));
  sparse.update.codec = "top_k";
  EXPECT_THAT(ErrorOf(RunPixels(sparse, 1)), HasSubstr("update.codec = \"top_k\" would leave little"));
}

}  // namespace
}  // namespace rivulet
