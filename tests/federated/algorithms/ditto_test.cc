// Ditto: the shared model is federated averaging's; each client's own is what NumPy computes in float64
// (reference/ditto.py).
#include <gmock/gmock.h>

#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

StatusOr<PixelRounds> DittoRounds(double lambda, int rounds) {
  Scenario scenario = PixelScenario("ditto");
  scenario.algorithm.settings["lambda"] = lambda;
  return RunPixels(scenario, rounds);
}

// In wire order; empty: it is no state of this plan.
std::vector<float> PersonalOf(const PixelRounds& run, int client) {
  const ModelLayout& layout = *run.plan->layout();
  std::vector<float> flat(layout.segment_bytes(Segment::kTrainable) / sizeof(float)), values;
  if (!ReadState(run.kept.at(client), std::vector<NamedState>{{"personal", flat}}).ok()) return values;
  for (const Slice& slice : layout.slices()) {
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(slice.offset / sizeof(float));
    values.insert(values.end(), begin, begin + slice.elements);
  }
  return values;
}

TEST(Ditto, ThreeRounds_AreNumPysInDouble) {
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, DittoRounds(0.3, 3));
  std::vector<float> found = testing::WeightsOfModel(*run.server.model);
  for (int client = 0; client < 3; ++client) {
    const std::vector<float> personal = PersonalOf(run, client);
    found.insert(found.end(), personal.begin(), personal.end());
  }
  testing::ExpectReference("ditto.txt", found);
}

TEST(Ditto, TheSharedModel_IsFedAvgsToTheBit) {
  for (const char* kernels : {"native", "portable"}) {
    Scenario ditto = PixelScenario("ditto"), average = PixelScenario("fedavg");
    ditto.run.kernels = average.run.kernels = kernels;
    ditto.client.shuffle = average.client.shuffle = true;
    ASSERT_OK_AND_ASSIGN(const PixelRounds with, RunPixels(ditto, 3));
    ASSERT_OK_AND_ASSIGN(const PixelRounds without, RunPixels(average, 3));
    EXPECT_EQ(with.versions, without.versions) << kernels;
    EXPECT_EQ(with.declared.at(0).at("train_loss"), without.declared.at(0).at("train_loss"));
    EXPECT_EQ(with.declared.at(0).at("steps"), 2 * without.declared.at(0).at("steps"));
  }
}

TEST(Ditto, Lambda_HoldsThePersonalModelToTheShared) {
  double before = std::numeric_limits<double>::infinity();
  for (const double lambda : {0.0, 0.3, 1.5}) {
    ASSERT_OK_AND_ASSIGN(const PixelRounds run, DittoRounds(lambda, 1));
    const std::vector<float> base = testing::WeightsOfModel(*testing::FourPixelsBase(*run.plan));
    const std::vector<float> personal = PersonalOf(run, 0);
    ASSERT_EQ(personal.size(), base.size());
    double squares = 0;
    for (size_t i = 0; i < base.size(); ++i) squares += std::pow(static_cast<double>(personal[i]) - base[i], 2);
    EXPECT_LT(squares, before) << lambda;
    before = squares;
  }
  EXPECT_GT(before, 1e-4);  // it trained
}

// Without a pull it is what its client would have learned alone, and so lower where its own data are.
TEST(Ditto, PersonalLoss_IsToldBesideTheSharedOne) {
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, DittoRounds(0, 3));
  const Scalars& declared = run.declared.at(2);
  EXPECT_LT(declared.at("personal_loss"), declared.at("train_loss"));
}

}  // namespace
}  // namespace rivulet
