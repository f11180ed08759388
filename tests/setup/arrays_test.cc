// model.arrays: a model that is a safetensors file, and the initial values of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/io/safetensors.h"
#include "setup/model.h"
#include "setup/run_setup.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

class ArraysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/arrays-{}-{}", ::testing::TempDir(), info->name(), getpid());
    std::filesystem::create_directories(folder_);
    scenario_.run.name = "arrays";
    scenario_.model.arrays = folder_ + "/init.safetensors";
    scenario_.data.partition.clients = 3;
    scenario_.server.clients_per_round = 2;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A matrix that is trained, beside what others want.
  void Write(std::vector<SafetensorsEntry> more = {}, const std::map<std::string, std::string>& metadata = {}) {
    std::vector<SafetensorsEntry> tensors = {{"w", DType::kFloat32, {2, 2}, std::as_bytes(std::span(weights_))},
                                             {"b", DType::kFloat32, {2}, std::as_bytes(std::span(weights_).first(2))}};
    tensors.insert(tensors.end(), more.begin(), more.end());
    const auto bytes = SerializeSafetensors(tensors, metadata);
    ASSERT_OK(bytes);
    std::ofstream(scenario_.model.arrays, std::ios::binary) << *bytes;
  }

  const std::vector<float> weights_ = {1, 2, 3, 4};
  const std::vector<uint16_t> halves_ = {0x3C00, 0x4000};
  std::string folder_;
  Scenario scenario_;
};

TEST_F(ArraysTest, File_IsTheModelThatARunBeginsWith) {
  Write();
  RunSetup setup(scenario_);
  ASSERT_OK_AND_ASSIGN(const auto plan, setup.plan());
  EXPECT_TRUE(plan->external());
  ASSERT_OK_AND_ASSIGN(const auto model, setup.initial_model());
  EXPECT_EQ(model->ComputeDigest(), plan->model().initial_model);
  EXPECT_EQ(model->tensor(*plan->layout()->Find("w")).flat<float>()[3], 4);
  scenario_.data.test = "/nowhere";  // by data.synth, say
  ASSERT_OK_AND_ASSIGN(const auto evaluator, RunSetup(scenario_).evaluator());
  EXPECT_EQ(evaluator, nullptr);
}

TEST_F(ArraysTest, HalvesFrozen_TravelAsTheyAre) {
  const SafetensorsEntry half = {"embedding", DType::kFloat16, {2}, std::as_bytes(std::span(halves_))};
  const SafetensorsEntry brain = {"scale", DType::kBFloat16, {2}, std::as_bytes(std::span(halves_))};
  Write({half, brain});
  EXPECT_THAT(
      ModelOf(scenario_),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("init.safetensors: tensor 'embedding' is float16, and updates are float32; convert it, "
                         "or name it in model.freeze")));
  scenario_.model.freeze = {"embedding", "scale"};
  RunSetup setup(scenario_);
  ASSERT_OK_AND_ASSIGN(const auto plan, setup.plan());
  EXPECT_EQ(plan->layout()->Find("embedding")->segment, Segment::kFrozen);
  ASSERT_OK_AND_ASSIGN(const auto model, setup.initial_model());
  EXPECT_EQ(model->tensor(*plan->layout()->Find("scale")).dtype, DType::kBFloat16);
  EXPECT_EQ(plan->layout()->update_elements(), 6);
}

TEST_F(ArraysTest, ModelFileOfARun_KeepsItsSegments) {
  const SafetensorsEntry moment = {"server/m", DType::kFloat32, {4}, std::as_bytes(std::span(weights_))};
  Write({moment}, {{"rivulet.segments", R"({"w": "trainable", "b": "shared", "server/m": "server"})"}});
  ASSERT_OK_AND_ASSIGN(const ModelDef model, ModelOf(scenario_));
  ASSERT_EQ(model.variables.size(), 2u);
  EXPECT_EQ(model.variables[0].name, "w");
  EXPECT_EQ(model.variables[1].segment, "shared");
}

TEST_F(ArraysTest, AnotherFileThanThePlans_IsRefused) {
  Write();
  ASSERT_OK_AND_ASSIGN(const auto plan, RunSetup(scenario_).plan());
  const_cast<float&>(weights_[0]) = 7;
  Write();
  RunSetup later(scenario_, {.plan = plan});
  EXPECT_THAT(later.initial_model(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("use the file that the plan was built from")));
}

TEST_F(ArraysTest, UnfitFiles_AreNamed) {
  EXPECT_THAT(ModelOf(scenario_), StatusIs(absl::StatusCode::kNotFound, HasSubstr("init.safetensors")));
  std::ofstream(scenario_.model.arrays) << "no model";
  EXPECT_THAT(ModelOf(scenario_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("init.safetensors: ")));
  Write();
  scenario_.model.freeze = {"*"};
  EXPECT_THAT(ModelOf(scenario_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nothing to train")));
  scenario_.model.freeze = {"c"};
  EXPECT_THAT(ModelOf(scenario_), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no variable matches 'c'")));
}

TEST_F(ArraysTest, WhoeverRunsTheModelItself_IsToldWhoCan) {
  EXPECT_THAT(RequireGraph(scenario_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rivulet.run_client")));
  scenario_.model.arrays.clear();
  EXPECT_OK(RequireGraph(scenario_));
}

}  // namespace
}  // namespace rivulet
