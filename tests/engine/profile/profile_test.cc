// Sums of recorded runs, the roofline for comparison, and the resulting losses.
#include "engine/profile/profile.h"

#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

// 10^11 FLOP/s; 10^11 B/s up to a MiB, 10^10 beyond a GiB.
Roofline TestRoofline() { return {1, 1e11, {{1 << 20, 1e11}, {1 << 30, 1e10}}}; }

InstructionProfile Row(std::string node, std::string op, std::string layer, int64_t calls, double seconds, double flops,
                       double bytes) {
  InstructionProfile row;
  row.node = std::move(node);
  row.op = std::move(op);
  row.layer = std::move(layer);
  row.implementation = "loops";
  row.kernel = "rivulet::(anonymous namespace)::SlowKernel<float, rivulet::Other>";
  row.calls = calls;
  row.seconds = seconds;
  row.flops = flops;
  row.bytes = bytes;
  row.live_bytes = static_cast<int64_t>(bytes);
  return row;
}

Profile TestProfile() {
  Profile profile;
  profile.title = "a \"title\"";
  profile.steps = 2;
  profile.step_seconds = 0.5;
  profile.run_seconds = 0.4;
  profile.roofline = TestRoofline();
  profile.instructions = {Row("dense/MatMul", "MatMul", "dense", 2, 0.02, 1e9, 1e4),   // at the limit
                          Row("slow/Product", "MatMul", "slow", 2, 0.22, 1e9, 1e4),    // 0.2 s above it
                          Row("slow/Transpose", "Transpose", "slow", 2, 0.1, 0, 1e6),  // nearly all above it
                          Row("tiny", "Add", "tiny", 40000, 0.01, 1, 12)};             // short calls
  profile.instructions[1].source_line = "model.cc:12";
  return profile;
}

TEST(Roofline, Seconds_AreTheLargerOfComputeAndMemory) {
  const Roofline roofline = TestRoofline();
  EXPECT_DOUBLE_EQ(roofline.Seconds(1e9, 1e4), 0.01);
  EXPECT_DOUBLE_EQ(roofline.Seconds(1, 1e5), 1e-6);
  EXPECT_EQ(roofline.BoundOf(1e9, 1e4, 0.1), Bound::kCompute);
  EXPECT_EQ(roofline.BoundOf(1, 1e6, 0.1), Bound::kMemory);
  EXPECT_EQ(roofline.BoundOf(1e9, 1e4, 1e-6), Bound::kOverhead);
}

TEST(Roofline, BytesPerSecond_AreThoseOfTheNearestMemoryThatHoldsThem) {
  const Roofline roofline = TestRoofline();
  EXPECT_DOUBLE_EQ(roofline.BytesPerSecond(10), 1e11);
  EXPECT_DOUBLE_EQ(roofline.BytesPerSecond(1 << 20), 1e11);
  EXPECT_NEAR(roofline.BytesPerSecond(1 << 25), 5.5e10, 1);  // in the middle, on a logarithmic scale
  EXPECT_DOUBLE_EQ(roofline.BytesPerSecond(1e12), 1e10);
}

TEST(Roofline, MeasureRoofline_OrdersItsMemories) {
  const Roofline roofline = MeasureRoofline(2);
  EXPECT_EQ(roofline.threads, 2);
  EXPECT_GT(roofline.flops_per_second, 1e8);
  ASSERT_GE(roofline.bandwidths.size(), 2u);
  for (size_t i = 1; i < roofline.bandwidths.size(); ++i) {
    EXPECT_GT(roofline.bandwidths[i].footprint, roofline.bandwidths[i - 1].footprint);
    EXPECT_LE(roofline.bandwidths[i].bytes_per_second, roofline.bandwidths[i - 1].bytes_per_second);
    EXPECT_GT(roofline.bandwidths[i].bytes_per_second, 1e7);
  }
}

TEST(Profile, GroupBy_SumsAndSortsByTime) {
  const Profile profile = TestProfile();
  const std::vector<ProfileGroup> ops = GroupBy(profile, &InstructionProfile::op);
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].name, "MatMul");
  EXPECT_EQ(ops[0].calls, 4);
  EXPECT_DOUBLE_EQ(ops[0].seconds, 0.24);
  EXPECT_DOUBLE_EQ(ops[0].flops, 4e9);
  EXPECT_DOUBLE_EQ(ops[0].roofline_seconds, 0.04);
  const std::vector<ProfileGroup> layers = GroupBy(profile, &InstructionProfile::layer);
  EXPECT_EQ(layers[0].name, "slow");
  EXPECT_DOUBLE_EQ(layers[0].seconds, 0.32);
  EXPECT_EQ(layers[0].live_bytes, 1000000);
}

TEST(Profile, LargestLosses_NameTheTimeAboveTheRoofline) {
  const Profile profile = TestProfile();
  const std::vector<ProfileLoss> losses = LargestLosses(profile);
  ASSERT_EQ(losses.size(), 3u);  // dense/MatMul loses nothing
  EXPECT_EQ(losses[0].instruction->node, "slow/Product");
  EXPECT_DOUBLE_EQ(losses[0].lost_seconds, 0.2);
  EXPECT_EQ(losses[0].bound, Bound::kCompute);
  EXPECT_EQ(
      losses[0].sentence,
      "slow/Product (op MatMul, layer slow, kernel SlowKernel [loops], built at model.cc:12): 110.00 ms of a "
      "step's 200.00 ms, 100.00 ms more than this machine needs; bound by compute: 9.1 GFLOP/s where the core can "
      "do 100.0 GFLOP/s (9 %)");
  EXPECT_EQ(losses[1].instruction->node, "slow/Transpose");
  EXPECT_EQ(losses[1].bound, Bound::kMemory);
  EXPECT_EQ(losses[2].bound, Bound::kOverhead);
  EXPECT_THAT(losses[2].sentence, HasSubstr("40000 calls of 0.2 us each"));
  EXPECT_EQ(LargestLosses(profile, 1).size(), 1u);
}

TEST(Profile, ShortKernelName_LeavesOutNamespacesAndArguments) {
  EXPECT_EQ(ShortKernelName("rivulet::(anonymous namespace)::SlowKernel<float, rivulet::Other>"), "SlowKernel");
  EXPECT_EQ(ShortKernelName("Plain"), "Plain");
  EXPECT_EQ(ShortKernelName(""), "");
}

TEST(Profile, Json_GoesThereAndBack) {
  const Profile profile = TestProfile();
  ASSERT_OK_AND_ASSIGN(const Profile back, ProfileFromJson(ProfileToJson(profile)));
  EXPECT_EQ(back.title, profile.title);
  EXPECT_EQ(back.steps, 2);
  ASSERT_EQ(back.instructions.size(), 4u);
  EXPECT_EQ(back.instructions[1].source_line, "model.cc:12");
  EXPECT_EQ(back.instructions[3].calls, 40000);
  EXPECT_EQ(LargestLosses(back)[0].sentence, LargestLosses(profile)[0].sentence);
}

TEST(Profile, ProfileFromJson_WhatIsNoProfile_IsRefusedByName) {
  EXPECT_THAT(ProfileFromJson("nonsense"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no profile")));
  EXPECT_THAT(ProfileFromJson("[1]"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a JSON object")));
  const std::string good = ProfileToJson(TestProfile());
  const std::pair<const char*, const char*> changes[] = {{"\"steps\":2", "\"steps\":-2"},
                                                         {"\"steps\":2", "\"steps\":2.5"},
                                                         {"\"calls\":40000", "\"calls\":\"many\""},
                                                         {"\"title\"", "\"headline\""},
                                                         {"\"flops_per_second\":1", "\"flops_per_second\":-1"},
                                                         {"\"bandwidths\":[", "\"bandwidths\":[3,"}};
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << good;
    bad.replace(at, std::string_view(from).size(), to);
    EXPECT_THAT(ProfileFromJson(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("missing or wrong")))
        << to;
  }
}

TEST(ProfileBuilder, AddRun_SumsCallsAndLeavesOutInnerTime) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{8});
  const Output y = scope.Op("Exp", {scope.SubScope("layer").Op("Neg", {x}, {}, "neg")}, {}, "exp");
  ASSERT_OK(scope.status());
  const auto runner = Runner::Create(graph, {{{"x", F32({8})}}, {y.name()}, {}, {}}).value();
  const Program* program = runner->program.get();
  ProfileBuilder builder;
  for (int step = 0; step < 2; ++step) {
    const InstructionSpan spans[] = {{program, 0, -1, 1000, 5000, 1500},  // neg runs exp inside of it
                                     {program, 1, 0, 2000, 3500, 0},
                                     {program, 2, -1, 6000, 0, 0}};  // failed
    builder.AddRun(spans, 0, 10000);
    builder.AddStep(2e-5);
  }
  const Profile profile = builder.Build();
  EXPECT_EQ(profile.steps, 2);
  EXPECT_DOUBLE_EQ(profile.run_seconds, 2e-5);
  EXPECT_DOUBLE_EQ(profile.step_seconds, 4e-5);
  ASSERT_EQ(profile.instructions.size(), 2u);
  EXPECT_EQ(profile.instructions[0].node, "layer/neg");
  EXPECT_EQ(profile.instructions[0].calls, 2);
  EXPECT_DOUBLE_EQ(profile.instructions[0].seconds, 2 * 2.5e-6);
  EXPECT_EQ(profile.instructions[1].node, "layer/neg/exp");
  EXPECT_EQ(profile.instructions[1].layer, "layer");
  EXPECT_DOUBLE_EQ(profile.instructions[1].seconds, 2 * 1.5e-6);
}

}  // namespace
}  // namespace rivulet::testing
