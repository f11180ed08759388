// Rounds whose clients start from a model encoded by a codec: three of them equal NumPy's float64 results
// (reference/local_training.py).
#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

// The base of what clients send is what they decoded, and the server moves the model that it has.
TEST(DownloadRounds, ThreeRounds_AreNumPysInDouble) {
  Scenario scenario = PixelScenario("fedavg");
  scenario.server.learning_rate = 0.75;
  scenario.client.epochs = 2;
  scenario.server.download = "f16";
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(scenario, 3));
  EXPECT_EQ(run.plan->download(), "f16");
  testing::ExpectReference("download.txt", testing::WeightsOfModel(*run.server.model));
}

}  // namespace
}  // namespace rivulet
