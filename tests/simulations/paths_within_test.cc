// Scenarios that came from elsewhere and name files anywhere: every path is below one folder afterwards, or the
// scenario is refused.
#include "simulations/launchers/paths_within.h"

#include <filesystem>

#include "federated/scenario/paths.h"
#include "simulations/launchers/invitation.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

namespace fs = std::filesystem;

class PathsWithinTest : public SimulatorTest {
 protected:
  PathsWithinTest() { fs::create_directory(Path("ours")); }
  std::string Ours(const std::string& name) { return Path("ours/" + name); }
  // data.train after it was put within "ours".
  StatusOr<std::string> Train(const std::string& path) {
    Scenario scenario;
    scenario.data.train = path;
    RIVULET_RETURN_IF_ERROR(PutPathsWithin(Path("ours"), scenario));
    return scenario.data.train;
  }
};

TEST_F(PathsWithinTest, AnyPath_IsLookedForByItsFilesName) {
  for (const char* path : {"/etc/train.tfrecord", "/proc/self/../../etc/train.tfrecord", "/train.tfrecord",
                           "/tmp/ours-too/train.tfrecord", "../../train.tfrecord", "train.tfrecord"}) {
    EXPECT_EQ(Train(path).value(), Ours("train.tfrecord")) << path;
  }
  EXPECT_EQ(Train("/etc/*.conf").value(), Ours("*.conf")) << "a pattern matches within the folder";
}

TEST_F(PathsWithinTest, PathBelowTheFolder_Stays) {
  EXPECT_EQ(Train(Ours("sub/train.tfrecord")).value(), Ours("sub/train.tfrecord"));
  EXPECT_EQ(Train(Ours("sub/../train.tfrecord")).value(), Ours("train.tfrecord"));
  EXPECT_EQ(Train(Ours("../ours-too/train.tfrecord")).value(), Ours("train.tfrecord"));
}

TEST_F(PathsWithinTest, PathWithoutAFilesName_IsRefusedWithItsKey) {
  for (const std::string path : {"/", "/etc/", "/etc/..", "..", ".", "/etc/.", "data/../.."}) {
    EXPECT_THAT(Train(path).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.train"))) << path;
  }
  EXPECT_THAT(Train(std::string("/etc/a\0b", 8)).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(PathsWithinTest, LinkOutOfTheFolder_IsNotFollowed) {
  WriteRecords("secret.tfrecord", DigitRecords(3));
  fs::create_directory(Path("outside"));
  fs::create_symlink(Path("secret.tfrecord"), Ours("file.tfrecord"));
  fs::create_symlink("../secret.tfrecord", Ours("relative.tfrecord"));
  fs::create_symlink(Path("not-there-yet.tfrecord"), Ours("dangling.tfrecord"));
  fs::create_directory_symlink(Path("outside"), Ours("sub"));
  for (const char* path : {"/x/file.tfrecord", "/x/relative.tfrecord", "/x/dangling.tfrecord", "/x/file.*"}) {
    EXPECT_THAT(Train(path).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("leads out of")))
        << path;
  }
  EXPECT_THAT(Train(Ours("sub/new.tfrecord")).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(PathsWithinTest, LinkWithinTheFolder_AndALinkToTheFolder_AreFollowed) {
  fs::rename(WriteRecords("data.tfrecord", DigitRecords(3)), Ours("data.tfrecord"));
  fs::create_symlink("data.tfrecord", Ours("link.tfrecord"));
  EXPECT_EQ(Train("/x/link.tfrecord").value(), Ours("link.tfrecord"));
  fs::create_directory_symlink(Path("ours"), Path("ours-by-link"));
  Scenario scenario;
  scenario.data.train = "/x/data.tfrecord";
  ASSERT_OK(PutPathsWithin(Path("ours-by-link"), scenario));
  EXPECT_EQ(scenario.data.train, Path("ours-by-link/data.tfrecord"));
}

// Every key of the table whose value is a path, those of registered pieces and of lists too.
TEST_F(PathsWithinTest, EveryKeyThatIsAPath_IsPutWithin) {
  Scenario scenario;
  scenario.algorithm.graph = scenario.client.input_graph = scenario.model.graph = scenario.model.onnx = "/etc/a.pb";
  scenario.model.arrays = scenario.model.base = scenario.model.weights = "/etc/a.safetensors";
  scenario.data.train = scenario.data.test = scenario.data.validation = "/etc/a.tfrecord";
  scenario.data.tests = {"north=/etc/north.tfrecord", "south=/etc/south.tfrecord"};
  scenario.data.partition.kind = "distribution";
  scenario.data.partition.settings["distribution"] = std::string("/etc/distribution.json");
  scenario.model.columns = scenario.devices.trace = scenario.selection.trace = "/etc/a.csv";
  scenario.server.fine_tune.data = "/etc/server.tfrecord";
  std::vector<std::string> before;
  ForEachPath(scenario, [&](std::string_view, std::string& path) { before.push_back(path); });
  const auto is_place = [](const ScenarioKey& key) { return key.key_class == KeyClass::kPlace; };
  EXPECT_EQ(static_cast<int64_t>(before.size()), std::ranges::count_if(ScenarioKeys(), is_place) + 1)
      << "each once, and the two of a list; a new key that is a path belongs above";
  ASSERT_OK(PutPathsWithin(Path("ours"), scenario));
  size_t after = 0;
  ForEachPath(scenario, [&](std::string_view key, std::string& path) {
    ++after;
    EXPECT_EQ(fs::path(path).parent_path(), fs::path(Path("ours"))) << key;
  });
  EXPECT_EQ(after, before.size());
  EXPECT_THAT(scenario.data.tests,
              ::testing::ElementsAre("north=" + Ours("north.tfrecord"), "south=" + Ours("south.tfrecord")));
  EXPECT_EQ(scenario.ToToml().find("/etc/"), std::string::npos);
}

TEST_F(PathsWithinTest, FalseInvitation_CreatesNothingOutsideTheFolder) {
  Scenario scenario;
  scenario.run.name = "false";
  scenario.model.preset = "logistic_regression";
  scenario.data.synth.kind = "digits";
  scenario.data.train = Path("anywhere/deep/train.tfrecord");
  scenario.data.test = Path("anywhere/test.tfrecord");
  scenario.data.partition.clients = scenario.server.clients_per_round = 3;
  const Invitation invitation{.run_id = "r\n\x1b[2J", .fingerprint = "00", .scenario = scenario.ToToml()};
  EXPECT_THAT(JoinSimulation(invitation, Path("ours")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not that of the simulation")));
  EXPECT_FALSE(fs::exists(Path("anywhere")));
  EXPECT_TRUE(fs::exists(Ours("train.tfrecord")));
  EXPECT_FALSE(fs::exists(Ours("test.tfrecord"))) << "measuring is the simulation's affair";
}

}  // namespace
}  // namespace rivulet
