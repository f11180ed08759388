// The processing steps of an update before it leaves the client, and their order; without configured steps it is
// unchanged.
#include "client/training/update_pipeline.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "client/agent/update_message_writer.h"
#include "client/training/pass_programs.h"
#include "federated/random/streams.h"
#include "tests/client/training/local_plan.h"
#include "tests/engine/program/allocations.h"

namespace rivulet {
namespace {

Scalars told;  // beside an update, of which nothing here takes notice

using ::testing::HasSubstr;
using testing::LocalScenario;
using testing::StatusIs;

constexpr double kClip = 2.5, kNoise = 0.4;

Scenario PrivateScenario(const std::string& codec = "f32") {
  Scenario scenario = LocalScenario();
  scenario.privacy.clip = kClip;
  scenario.privacy.noise = kNoise;
  scenario.privacy.noise_source = "seeded";
  scenario.update.codec = codec;
  return scenario;
}

Task SomeTask(int64_t base_version = 3) {
  Task task;
  task.id = "run-r4-a1-a-1";
  task.base_version = base_version;
  task.ordinal = 1;
  task.stream_key = ClientKey(42, "a");
  return task;
}

// An update of the plan in two stretches, of which one is a difference: 3, 4 and zeros, of norm 5.
struct ThreeAndFour {
  explicit ThreeAndFour(const Plan& plan) : rest(static_cast<size_t>(plan.layout()->update_elements()) - 1) {
    rest[0] = 4;
  }
  const float params = 10, base = 7;
  std::vector<float> rest;
  const std::vector<FloatRun> runs{{&params, &base, 1}};
  std::vector<FloatRun> all = {runs[0], {rest.data(), nullptr, std::ssize(rest)}};
  const PartView part{.name = "delta", .runs = all};
};

std::vector<float> ValuesOf(const PartView& part) {
  std::vector<float> values;
  for (const FloatRun& run : part.runs) {
    for (int64_t i = 0; i < run.count; ++i) values.push_back(ValueOf(run, i));
  }
  return values;
}

float ToBf16(float value) {  // of a plain number: half way cases aside
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x8000) & 0xFFFF0000);
}

// By hand: 3 and 4 are halved to a norm of 2.5, noise of deviation 0.4 · 2.5 is added, and the sum is rounded to eight
// bits. In another order the noise would be halved too, or the sum would have more bits.
TEST(UpdatePipeline, ClipsThenAddsNoiseThenEncodes) {
  for (const std::string codec : {"f32", "bf16"}) {
    SCOPED_TRACE(codec);
    const auto plan = testing::LocalPlan(PrivateScenario(codec));
    const ThreeAndFour update(*plan);
    ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
    EXPECT_FALSE(pipeline->transparent());
    ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&update.part, 1}, told));
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts[0].name, "delta");
    const auto elements = static_cast<size_t>(plan->layout()->update_elements());
    std::vector<float> values(elements);
    if (codec == "f32") {
      EXPECT_TRUE(parts[0].data.empty());
      values = ValuesOf(parts[0]);
    } else {
      EXPECT_TRUE(parts[0].runs.empty());
      EXPECT_EQ(parts[0].data.size(), 2 * elements);
      ASSERT_OK_AND_ASSIGN(const auto decoder, Codec::Create(codec, std::ssize(values)));
      ASSERT_OK(decoder->Check(parts[0].data));
      decoder->Decode(parts[0].data, 0, values);
    }
    Draws draws(StreamFor(ClientKey(42, "a"), Purpose::kNoise, 3, 1), 1);
    double squares = 0;
    for (size_t i = 0; i < elements; ++i) {
      const float clipped = i == 0 ? 1.5f : i == 1 ? 2.0f : 0.0f;
      const double noise = kNoise * kClip * draws.Normal();
      const auto noisy = static_cast<float>(clipped + noise);
      EXPECT_EQ(values[i], codec == "f32" ? noisy : ToBf16(noisy)) << i;
      squares += noise * noise;
    }
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(elements)), kNoise * kClip, 0.03);
  }
}

TEST(UpdatePipeline, UpdateWithinTheBound_IsNotScaled) {
  Scenario scenario = PrivateScenario();
  scenario.privacy.noise = 0;
  scenario.privacy.clip = 5;
  const auto plan = testing::LocalPlan(scenario);
  const ThreeAndFour update(*plan);
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&update.part, 1}, told));
  EXPECT_EQ(ValuesOf(parts[0]), ValuesOf(update.part));
}

TEST(UpdatePipeline, Noise_IsTheTasksOwn) {
  const auto plan = testing::LocalPlan(PrivateScenario());
  const ThreeAndFour update(*plan);
  const auto apply = [&](const Task& task) {
    auto pipeline = UpdatePipeline::Create(*plan);
    EXPECT_OK(pipeline);
    EXPECT_TRUE(AreRepeatable(plan->training().mechanisms));
    auto parts = (*pipeline)->Apply(task, {&update.part, 1}, told);
    EXPECT_OK(parts);
    return ValuesOf((*parts)[0]);
  };
  EXPECT_EQ(apply(SomeTask()), apply(SomeTask()));
  EXPECT_NE(apply(SomeTask()), apply(SomeTask(4)));
  Task other = SomeTask();
  other.stream_key = ClientKey(42, "b");
  EXPECT_NE(apply(SomeTask()), apply(other));
}

TEST(UpdatePipeline, SecureNoise_IsNeverTheSame) {
  Scenario scenario = PrivateScenario();
  scenario.privacy.noise_source = "secure";
  const auto plan = testing::LocalPlan(scenario);
  const ThreeAndFour update(*plan);
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  EXPECT_FALSE(AreRepeatable(plan->training().mechanisms));
  std::vector<std::vector<float>> drawn;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&update.part, 1}, told));
    drawn.push_back(ValuesOf(parts[0]));
  }
  EXPECT_NE(drawn[0], drawn[1]);
  double squares = 0;
  for (size_t i = 2; i < drawn[0].size(); ++i) squares += static_cast<double>(drawn[0][i]) * drawn[0][i];
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(drawn[0].size() - 2)), kNoise * kClip, 0.03);
}

// Without mechanisms an update is folded from where it was trained: nothing is copied, and so nothing is allocated.
TEST(UpdatePipeline, NothingAsked_LeavesTheTrainersMemory) {
  const auto plan = testing::LocalPlan();
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  EXPECT_TRUE(pipeline->transparent());
  const ThreeAndFour update(*plan);
  ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&update.part, 1}, told));
  EXPECT_EQ(parts[0].runs.data(), update.all.data());
  // The lists of views alone.
  EXPECT_LE(testing::CountAllocations([&] { (void)pipeline->Apply(SomeTask(), {&update.part, 1}, told); }), 3);
}

// A codec alone encodes from where the values lie, and its bytes are what is sent.
TEST(UpdatePipeline, CodecAlone_CopiesNothingButItsBytes) {
  Scenario scenario = LocalScenario();
  scenario.update.codec = "bf16";
  const auto plan = testing::LocalPlan(scenario);
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  const ThreeAndFour update(*plan);
  (void)pipeline->Apply(SomeTask(), {&update.part, 1}, told);
  EXPECT_LE(testing::CountAllocations([&] { (void)pipeline->Apply(SomeTask(), {&update.part, 1}, told); }), 3);
  ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&update.part, 1}, told));
  const std::string message = WriteUpdate(parts, {{"examples", 5}});
  const std::string_view bytes(reinterpret_cast<const char*>(parts[0].data.data()), parts[0].data.size());
  EXPECT_NE(message.find(bytes), std::string::npos);
  EXPECT_LT(message.size(), bytes.size() + 100);
}

// Values that are made while they are read, a few at a time.
class MadeOf final : public MadePart {
 public:
  explicit MadeOf(std::span<const FloatRun> runs) : runs_(runs) {}
  int64_t elements() const override {
    int64_t elements = 0;
    for (const FloatRun& run : runs_) elements += run.count;
    return elements;
  }
  size_t blocks() const override { return runs_.size(); }
  FloatRun Make(size_t block) const override { return runs_[block]; }

 private:
  const std::span<const FloatRun> runs_;
};

std::vector<float> ValuesOfMade(const PartView& part) {
  std::vector<float> values;
  for (size_t block = 0; block < part.made->blocks(); ++block) {
    const FloatRun run = part.made->Make(block);
    EachValue({&run, 1}, [&](float value) { values.push_back(value); });
  }
  return values;
}

// A clip alone leaves the trainer's memory, and the factor goes along. The bits are those of values that are changed.
TEST(UpdatePipeline, ClipAlone_IsAFactorOfRuns) {
  Scenario scenario = PrivateScenario();
  scenario.privacy.noise = 0;
  const auto plan = testing::LocalPlan(scenario);
  ThreeAndFour update(*plan);
  for (size_t i = 1; i < update.rest.size(); ++i) update.rest[i] = std::sin(static_cast<float>(i)) / 7;
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  EXPECT_TRUE(pipeline->scales());
  EXPECT_FALSE(pipeline->transparent());
  EXPECT_TRUE(AreRepeatable(plan->training().mechanisms));
  ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&update.part, 1}, told));
  ASSERT_EQ(parts[0].runs.size(), 2u);
  EXPECT_EQ(parts[0].runs[0].values, &update.params);
  EXPECT_EQ(parts[0].runs[1].values, update.rest.data());
  const std::vector<float> clipped = ValuesOf(parts[0]);
  double squares = 0;
  for (const float value : clipped) squares += static_cast<double>(value) * value;
  EXPECT_LE(std::sqrt(squares), kClip * (1 + 0x1p-24));
  EXPECT_GE(std::sqrt(squares), kClip * (1 - 0x1p-22));

  std::vector<float> changed = ValuesOf(update.part);
  const std::span<float> all = changed;
  Draws draws(StreamKey{}, 0);
  Scalars declared;
  ASSERT_OK_AND_ASSIGN(const auto clip, Mechanism::Create({"clip", {{"norm", kClip}}}));
  ASSERT_OK(clip->Apply({&all, 1}, draws, declared));
  EXPECT_EQ(changed, clipped);
  // So are the bytes of an upload.
  const std::string message = WriteUpdate(parts, {});
  EXPECT_NE(message.find(std::string(reinterpret_cast<const char*>(changed.data()), 4 * changed.size())),
            std::string::npos);
}

TEST(UpdatePipeline, ClipOfWhatIsMade_HasTheSameBitsAndSomeUpdatesWaitTogether) {
  Scenario scenario = PrivateScenario();
  scenario.privacy.noise = 0;
  const auto plan = testing::LocalPlan(scenario);
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  const size_t most = pipeline->MostTogether();
  ASSERT_GE(most, 2u);
  std::vector<std::unique_ptr<ThreeAndFour>> updates;
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < most; ++i) {
    updates.push_back(std::make_unique<ThreeAndFour>(*plan));
    updates[i]->rest[7] = static_cast<float>(i) / 4;
    ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), {&updates[i]->part, 1}, told));
    alone.push_back(ValuesOf(parts[0]));
  }
  for (const bool together : {false, true}) {
    std::vector<std::unique_ptr<MadeOf>> made;
    std::vector<PartView> sent;
    for (size_t i = 0; i < most; ++i) {
      made.push_back(std::make_unique<MadeOf>(updates[i]->all));
      sent.push_back({.name = "delta", .made = made[i].get()});
    }
    std::vector<std::span<const PartView>> all;
    for (const PartView& part : sent) all.emplace_back(&part, 1);
    if (together) pipeline->MeasureTogether(all);
    std::vector<PartView> waiting;
    for (size_t i = 0; i < most; ++i) {
      if (together && i == 1) continue;  // one that fails before it is applied moves those after it
      ASSERT_OK_AND_ASSIGN(const auto parts, pipeline->Apply(SomeTask(), all[i], told));
      waiting.push_back(parts[0]);
      EXPECT_EQ(ValuesOfMade(waiting.back()), alone[i]) << i;
    }
    EXPECT_EQ(ValuesOfMade(waiting[0]), alone[0]);
  }
}

// More stages than a clip, or a codec, need values that are changed.
TEST(UpdatePipeline, ClipBesideOthers_ChangesACopy) {
  for (const auto& [codec, noise] : std::vector<std::pair<std::string, double>>{{"f32", kNoise}, {"bf16", 0}}) {
    Scenario scenario = PrivateScenario(codec);
    scenario.privacy.noise = noise;
    ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*testing::LocalPlan(scenario)));
    EXPECT_FALSE(pipeline->scales());
    EXPECT_EQ(pipeline->MostTogether(), 1u);
  }
}

TEST(UpdatePipeline, PartsOfAnotherPlan_AreRefused) {
  const auto plan = testing::LocalPlan(PrivateScenario());
  ASSERT_OK_AND_ASSIGN(const auto pipeline, UpdatePipeline::Create(*plan));
  const float value = 1;
  const FloatRun run{&value, nullptr, 1};
  const PartView part{.name = "delta", .runs = {&run, 1}};
  EXPECT_THAT(pipeline->Apply(SomeTask(), {&part, 1}, told),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("training has left 1 elements of part 'delta'")));
}

}  // namespace
}  // namespace rivulet
