// Settings that are compatible with privacy.secure; others are refused with their key.
#include <gmock/gmock.h>

#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::PixelScenario;
using testing::StatusIs;

Scenario SecureScenario(const std::string& algorithm = "fedavg") {
  Scenario scenario = PixelScenario(algorithm);
  scenario.secure.protocol = "arithmetic";
  scenario.secure.min_survivors = 1;
  scenario.privacy.clip = 1;
  return scenario;
}

std::string ErrorOf(const Scenario& scenario) {
  const auto plan = ComposePlan(scenario, testing::FourPixels());
  EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("privacy.secure")));
  return std::string(Message(plan.status()));
}

TEST(SecureSums, ArePlainToRead_InTheSignedPlan) {
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(SecureScenario(), testing::FourPixels()));
  EXPECT_EQ(plan->format(), kBroadPlanFormat);  // a client that knows no secure sums refuses it
  const SecureSum& secure = plan->aggregation().secure;
  EXPECT_EQ(secure.protocol, "arithmetic");
  EXPECT_EQ(secure.min_survivors, 1);
  ASSERT_OK_AND_ASSIGN(const auto again, Plan::Open(plan->bytes()));
  EXPECT_EQ(again->aggregation().digest(), plan->aggregation().digest());
  EXPECT_EQ(again->aggregation().secure, secure);
  ASSERT_OK_AND_ASSIGN(const auto plain, ComposePlan(PixelScenario("fedavg"), testing::FourPixels()));
  EXPECT_FALSE(plain->aggregation().secure.on());
}

TEST(SecureSums, TakeTheirBoundFromTheClip_InEveryPart) {
  const auto value_bits = [](double clip, double noise) {
    Scenario scenario = SecureScenario("scaffold");
    scenario.privacy.clip = clip;
    scenario.privacy.noise = noise;
    scenario.server.sum_bits = 64;
    const auto plan = ComposePlan(scenario, testing::FourPixels());
    EXPECT_OK(plan);
    const AggregationSpec& spec = (*plan)->aggregation();
    EXPECT_EQ(spec.parts.size(), 2u);
    EXPECT_EQ(spec.parts[0].value_bits, spec.parts[1].value_bits);
    return spec.parts[0].value_bits;
  };
  EXPECT_EQ(value_bits(0.9, 0), 0);
  EXPECT_EQ(value_bits(1, 0), 1);  // a clipped value may exceed its clip by a rounding
  EXPECT_EQ(value_bits(3, 0), 2);
  EXPECT_EQ(value_bits(0.9, 1), 4);  // 0.9 + 12 deviations of 0.9
}

// A value that is sent stands for those that are not, so it may be so many times the clip.
TEST(SecureSums, OfValuesAtSharedPlaces_TakeTheirBoundFromTheClipAndTheShare) {
  Scenario scenario = SecureScenario();
  scenario.privacy.clip = 0.75;
  scenario.update.codec = "random_k_shared";
  for (const double fraction : {1.0, 0.25, 0.01}) {
    scenario.update.settings = {{"fraction", fraction}};
    ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(scenario, testing::FourPixels()));
    const PartSpec& part = plan->aggregation().parts[0];
    const auto elements = static_cast<double>(part.elements);
    const double largest = 0.75 * elements / std::ceil(fraction * elements);
    EXPECT_GT(std::exp2(part.value_bits), largest) << fraction;
    EXPECT_LE(std::exp2(part.value_bits - 1), largest) << fraction;
  }
}

TEST(SecureSums, AreRefusedByName_WithWhatTheyHide) {
  Scenario scenario = SecureScenario();
  scenario.privacy.clip = 0;
  EXPECT_THAT(ErrorOf(scenario), HasSubstr("set privacy.clip"));
  for (const char* codec : {"bf16", "int8", "sign", "top_k", "random_k"}) {
    scenario = SecureScenario();
    scenario.update.codec = codec;
    scenario.update.error_feedback = false;
    EXPECT_THAT(ErrorOf(scenario), HasSubstr("set update.codec to \"f32\"")) << codec;
  }
  scenario = SecureScenario();
  scenario.server.base = "latest";
  EXPECT_THAT(ErrorOf(scenario), HasSubstr("server.base is \"latest\""));
  EXPECT_THAT(ErrorOf(SecureScenario("fedbuff")), HasSubstr("server.base"));
  for (const char* robust : {"median", "trimmed_mean", "krum", "geometric_median", "centered_clipping"}) {
    EXPECT_THAT(ErrorOf(SecureScenario(robust)),
                HasSubstr(fmt::format("algorithm.name = \"{}\" compares them", robust)));
  }
  scenario = SecureScenario("agnostic");
  EXPECT_THAT(ErrorOf(scenario), HasSubstr("by which algorithm.name = \"agnostic\" steers"));
  for (const char* selector : {"oort", "power_of_choice", "weighted"}) {
    scenario = SecureScenario();
    scenario.selection.name = selector;
    EXPECT_THAT(ErrorOf(scenario), HasSubstr(fmt::format("set selection.name = \"{}\" to one of them", selector)));
  }
  scenario = SecureScenario();
  scenario.selection.min_examples = 5;
  EXPECT_THAT(ErrorOf(scenario), HasSubstr("set selection.min_examples to 0"));
  scenario = SecureScenario();
  scenario.server.checkpoint_reports = true;
  EXPECT_THAT(ErrorOf(scenario), HasSubstr("set server.checkpoint_reports to false"));
}

// Noise of clients is sized for the smallest sum, and no smaller one is made.
TEST(SecureSums, WithNoiseOfClients_HaveAsManyAsTheNoiseIsOf) {
  Scenario scenario = SecureScenario("dp_fedavg");
  scenario.algorithm.settings = {{"noise_multiplier", 1.0}, {"noise", std::string("distributed")}};
  scenario.server.clients_per_round = 8;
  scenario.secure = {.protocol = "secagg_plus", .min_survivors = 3, .min_cohort = 4, .least_sum = 5};
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(scenario, testing::FourPixels()));
  EXPECT_EQ(plan->aggregation().secure.min_survivors, 5);
  EXPECT_EQ(plan->aggregation().secure.min_cohort, 5);
}

// Figures are summed as updates are, by as many clients as that takes.
TEST(SecureSums, OfMeasurements_HaveTheBoundsOfUpdates) {
  Scenario scenario = SecureScenario();
  scenario.evaluation.federated_every = 1;
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(scenario, testing::FourPixels()));
  const AggregationSpec& spec = plan->aggregation(TaskKind::kEvaluate);
  EXPECT_EQ(spec.secure, plan->aggregation().secure);
  EXPECT_EQ(spec.updates_per_version, kMostSecureUpdates);
  EXPECT_EQ(spec.sum_bits(), 64);
  scenario.secure.min_survivors = 2;
  scenario.evaluation.federated_clients = 1;
  EXPECT_THAT(ComposePlan(scenario, testing::FourPixels()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("and 1 clients measure a version (evaluation.federated_clients)")));
}

TEST(SumBits, OfHalfTheWidth_AreForMeansWithEnoughResolution) {
  Scenario scenario = SecureScenario();
  scenario.server.sum_bits = 32;
  scenario.server.max_weight = 1 << 20;
  const auto refused = ComposePlan(scenario, testing::FourPixels());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Set server.sum_bits to 64")));
  scenario.server.weights = "uniform";
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(scenario, testing::FourPixels()));
  EXPECT_EQ(plan->aggregation().parts[0].sum_bits, 32);
  scenario.server.sum_bits = 33;
  EXPECT_THAT(ComposePlan(scenario, testing::FourPixels()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sums of 33 bits cannot be kept")));
  scenario = PixelScenario("median");
  scenario.server.sum_bits = 32;
  EXPECT_THAT(ComposePlan(scenario, testing::FourPixels()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("keeps updates instead of sums; set it to 64")));
}

}  // namespace
}  // namespace rivulet
