// Training that protects single examples: draws, clipping, noise, and each client's account.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "client/training/example_accounts.h"
#include "client/training/example_steps.h"
#include "client/training/failure.h"
#include "client/training/pass_programs.h"
#include "client/training/task_trainer.h"
#include "federated/plan/example_noise.h"
#include "federated/plan/example_source.h"
#include "federated/privacy/accountant.h"
#include "proto/graph/example.pb.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::DigitExample;
using ::rivulet::testing::DigitRecords;
using ::rivulet::testing::LocalPlan;
using ::rivulet::testing::LocalScenario;
using ::rivulet::testing::MemoryDataset;
using ::rivulet::testing::PatternModel;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

Scenario ExampleScenario(double clip, double noise) {
  Scenario scenario = LocalScenario();
  scenario.privacy.unit = "example";
  scenario.privacy.clip = clip;
  scenario.privacy.noise = noise;
  scenario.client.batch_size = 12;
  scenario.client.epochs = 2;
  scenario.client.optimizer.learning_rate = 0.5;
  return scenario;
}

Task ExampleTask(int64_t version = 2) {
  Task task;
  task.id = fmt::format("run-r{}-a1-client-00007-0", version + 1);
  task.run_id = "run";
  task.client_id = "client-00007";
  task.base_version = version;
  task.stream_key = ClientKey(42, "client-00007");
  return task;
}

// Of so many examples, whose bytes `which` stands for.
ExampleData Data(int64_t examples, std::string_view which = "the same") {
  return {.examples = examples, .digest = Sha256Of(which)};
}

Digest WorkOfTask(const Plan& plan, int64_t version) {
  return ExampleWorkOf(ExampleTask(version), Data(30).digest, plan, "");
}

privacy::NoiseKey KeyOfBytes(uint8_t first) {
  privacy::NoiseKey::Bytes bytes{};
  std::iota(bytes.begin(), bytes.end(), first);
  return privacy::NoiseKey::FromBytes(bytes);
}

struct TrainedDelta {
  std::vector<float> delta;
  LocalResult result;
};

StatusOr<TrainedDelta> TrainByExample(const std::shared_ptr<const Plan>& plan, const std::vector<std::string>& records,
                                      const privacy::NoiseKey& key, const Task& task = ExampleTask()) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<MemoryDataset>(records), std::nullopt, decoder);
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  const auto base = PatternModel(*plan);
  const LaneTask lane{
      .task = &task, .client_id = task.client_id, .base = base.get(), .examples = &examples, .example_key = &key};
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  RIVULET_RETURN_IF_ERROR(results[0].status);
  TrainedDelta trained{{}, std::move(results[0])};
  for (const FloatRun& run : trained.result.parts.at(0).runs)
    for (int64_t i = 0; i < run.count; ++i) trained.delta.push_back(ValueOf(run, i));
  trained.result.parts.clear();
  return trained;
}

// Softmax regression by hand in float64: each step draws, clips the gradient of each example, and divides by the
// planned batch. Without noise. The delta in wire order.
std::vector<double> ByHand(const Plan& plan, const Scenario& scenario, const std::vector<std::string>& records,
                           const privacy::NoiseKey& key, int64_t* clipped) {
  constexpr size_t kPixels = 784, kClasses = 10;
  const auto base = PatternModel(plan);
  std::vector<double> kernel, bias;
  for (const Slice& slice : plan.layout()->slices()) {
    const auto values = base->tensor(slice).flat<const float>();
    (slice.elements == kClasses ? bias : kernel).assign(values.begin(), values.end());
  }
  const std::vector<double> kernel0 = kernel, bias0 = bias;
  const auto count = static_cast<int64_t>(records.size());
  const int64_t steps = scenario.client.epochs * ExampleStepsPerEpoch(scenario.client.batch_size, count);
  std::vector<uint32_t> drawn;
  for (int64_t step = 0; step < steps; ++step) {
    EXPECT_OK(DrawExamples(key, static_cast<uint64_t>(step), scenario.client.batch_size, count, drawn));
    std::vector<double> kernel_sum(kernel.size()), bias_sum(bias.size());
    for (const uint32_t record : drawn) {
      proto::Example example;
      example.ParseFromString(records[record]);
      const auto& features = example.features().feature();
      const std::string& image = features.at("image").bytes_list().value(0);
      const auto label = static_cast<size_t>(features.at("label").int64_list().value(0));
      double logits[kClasses], largest = -1e300, sum = 0, pixels = 0;
      for (size_t c = 0; c < kClasses; ++c) {
        logits[c] = bias[c];
        for (size_t k = 0; k < kPixels; ++k) {
          logits[c] += static_cast<uint8_t>(image[k]) / 255.0 * kernel[k * kClasses + c];
        }
        largest = std::max(largest, logits[c]);
      }
      for (const double logit : logits) sum += std::exp(logit - largest);
      double g[kClasses], square = 0;
      for (size_t c = 0; c < kClasses; ++c) {
        g[c] = std::exp(logits[c] - largest) / sum - (c == label ? 1 : 0);
        square += g[c] * g[c];
      }
      for (size_t k = 0; k < kPixels; ++k) pixels += std::pow(static_cast<uint8_t>(image[k]) / 255.0, 2);
      const double norm = std::sqrt(square * (1 + pixels));
      const double factor = std::min(1.0, scenario.privacy.clip / norm);
      if (factor < 1) ++*clipped;
      for (size_t c = 0; c < kClasses; ++c) {
        bias_sum[c] += factor * g[c];
        for (size_t k = 0; k < kPixels; ++k)
          kernel_sum[k * kClasses + c] += factor * g[c] * static_cast<uint8_t>(image[k]) / 255.0;
      }
    }
    const double rate = scenario.client.optimizer.learning_rate / static_cast<double>(scenario.client.batch_size);
    for (size_t i = 0; i < kernel.size(); ++i) kernel[i] -= rate * kernel_sum[i];
    for (size_t i = 0; i < bias.size(); ++i) bias[i] -= rate * bias_sum[i];
  }
  std::vector<double> delta;
  for (const Slice& slice : plan.layout()->slices()) {
    const bool is_bias = slice.elements == kClasses;
    const std::vector<double>&now = is_bias ? bias : kernel, &then = is_bias ? bias0 : kernel0;
    for (size_t i = 0; i < now.size(); ++i) delta.push_back(now[i] - then[i]);
  }
  return delta;
}

TEST(ExamplePrivacyTest, LittleNoise_IsAHandWrittenLoopOfClippedExamples) {
  const Scenario scenario = ExampleScenario(6, 0.001);
  const auto plan = LocalPlan(scenario);
  const std::vector<std::string> records = DigitRecords(50);
  const privacy::NoiseKey key = KeyOfBytes(1);
  ASSERT_OK_AND_ASSIGN(const TrainedDelta trained, TrainByExample(plan, records, key));
  EXPECT_EQ(trained.result.steps, 10);
  int64_t clipped = 0;
  const std::vector<double> wanted = ByHand(*plan, scenario, records, key, &clipped);
  EXPECT_GT(clipped, 10);
  ASSERT_EQ(trained.delta.size(), wanted.size());
  double largest = 0, worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    worst = std::max(worst, std::abs(trained.delta[i] - wanted[i]));
  }
  EXPECT_GT(largest, 0.05);  // it trained
  // Ten steps of noise with the deviation 0.5 · 0.006 / 12 each, at 6 deviations.
  EXPECT_LT(worst, 6 * std::sqrt(10.0) * 0.5 * 0.006 / 12);
}

// Pixels that are 0 in all examples have the gradient 0: their weights move by noise alone.
TEST(ExamplePrivacyTest, WeightsOfDarkPixels_MoveByNoiseOfTheStatedDeviation) {
  Scenario scenario = ExampleScenario(0.5, 2);
  scenario.client.epochs = 1;
  scenario.client.optimizer.learning_rate = 1;
  const auto plan = LocalPlan(scenario);
  std::vector<std::string> records;  // one step of all of them
  for (int i = 0; i < 12; ++i) {
    std::string image(784, '\0');
    for (size_t k = 0; k < 700; ++k) image[k] = static_cast<char>((k * 31 + static_cast<size_t>(i) * 17) % 251 + 1);
    records.push_back(DigitExample(image, i % 10));
  }
  ASSERT_OK_AND_ASSIGN(const TrainedDelta trained, TrainByExample(plan, records, KeyOfBytes(1)));
  EXPECT_EQ(trained.result.steps, 1);
  std::vector<bool> dark(784, true);
  for (const std::string& record : records) {
    proto::Example example;
    example.ParseFromString(record);
    const std::string& image = example.features().feature().at("image").bytes_list().value(0);
    for (size_t k = 0; k < dark.size(); ++k) dark[k] = dark[k] && image[k] == 0;
  }
  const bool kernel_first = plan->layout()->slices()[0].elements > 10;
  double square = 0;
  int64_t count = 0;
  for (size_t k = 0; k < dark.size(); ++k) {
    for (size_t c = 0; dark[k] && c < 10; ++c, ++count)
      square += std::pow(trained.delta[(kernel_first ? 0 : 10) + k * 10 + c], 2);
  }
  ASSERT_GT(count, 500);
  const double deviation = std::sqrt(square / static_cast<double>(count)), stated = 2 * 0.5 / 12;
  // The deviation of a sample of this size has the relative deviation 1 / sqrt(2 count).
  EXPECT_NEAR(deviation / stated, 1, 5 / std::sqrt(2 * static_cast<double>(count)));
}

TEST(ExamplePrivacyTest, SameTask_HasTheSameBits_AndAnotherTaskOrKeyOthers) {
  const auto plan = LocalPlan(ExampleScenario(1, 1));
  const std::vector<std::string> records = DigitRecords(30);
  const privacy::NoiseKey site = KeyOfBytes(1), other = KeyOfBytes(2);
  std::vector<std::vector<float>> deltas;
  const std::vector<std::pair<const privacy::NoiseKey*, int64_t>> cases = {
      {&site, 2}, {&site, 2}, {&site, 3}, {&other, 2}};
  for (const auto& [key, version] : cases) {
    ASSERT_OK_AND_ASSIGN(const privacy::NoiseKey of_task, ExampleKeyOf(*key, WorkOfTask(*plan, version)));
    ASSERT_OK_AND_ASSIGN(TrainedDelta trained, TrainByExample(plan, records, of_task, ExampleTask(version)));
    deltas.push_back(std::move(trained.delta));
  }
  EXPECT_EQ(deltas[0], deltas[1]);
  EXPECT_NE(deltas[0], deltas[2]);
  EXPECT_NE(deltas[0], deltas[3]);
}

// docs/internals/privacy.md: 180 examples at most, in 6 programs of 32 rows, and a widest weight of 784 x 10.
TEST(ExamplePrivacyTest, FloatSlack_IsTheBoundThatIsProved) {
  const auto slack = [](int64_t batch_size) {
    Scenario scenario = ExampleScenario(1, 1);
    scenario.client.batch_size = batch_size;
    return FloatSlackOf(*LocalPlan(scenario)->layout(), batch_size);
  };
  EXPECT_DOUBLE_EQ(slack(64), 1.01 * 0x1p-24 * (2 * 6 * 32 * 34 + 794 + 2 * 8 + 16));
  EXPECT_EQ(slack(1), 0x1p-12) << "the least";
  EXPECT_LT(slack(1024), 0.03);
}

TEST(ExamplePrivacyTest, Result_TellsNoLoss) {
  const auto plan = LocalPlan(ExampleScenario(1, 1));
  ASSERT_OK_AND_ASSIGN(const TrainedDelta trained, TrainByExample(plan, DigitRecords(30), KeyOfBytes(1)));
  EXPECT_EQ(trained.result.train_loss, std::nullopt);
  EXPECT_EQ(trained.result.declared, (Scalars{{"examples", 30}, {"steps", 6}}));
}

TEST(ExamplePrivacyTest, WithoutKey_IsRefused) {
  const auto plan = LocalPlan(ExampleScenario(1, 1));
  const auto records = DigitRecords(5);
  ASSERT_OK_AND_ASSIGN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<MemoryDataset>(records), std::nullopt, decoder);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  const auto base = PatternModel(*plan);
  const Task task = ExampleTask();
  const LaneTask lane{.task = &task, .client_id = "a", .base = base.get(), .examples = &examples};
  ASSERT_OK_AND_ASSIGN(const auto results, trainer->Train({&lane, 1}));
  EXPECT_THAT(results[0].status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("noise key")));
}

TEST(ExamplePrivacyTest, Draws_TakeEachExampleAtTheRate) {
  const privacy::NoiseKey key = KeyOfBytes(3);
  std::vector<uint32_t> drawn;
  std::vector<int> times(40);
  constexpr int kSteps = 4000;
  for (uint64_t step = 0; step < kSteps; ++step) {
    ASSERT_OK(DrawExamples(key, step, 8, 40, drawn));
    for (const uint32_t example : drawn) ++times[example];
  }
  // 0.2 · 4,000 with the deviation 25.3.
  for (const int count : times) EXPECT_NEAR(count, 800, 5 * 25.3);
  ASSERT_OK(DrawExamples(key, 0, 8, 8, drawn));
  EXPECT_EQ(drawn.size(), 8u);
}

// An account's file follows a training across processes.
TEST(ExampleAccountsTest, Tasks_AreChargedOnce_AndFoundAgain) {
  TempFolder folder;
  Scenario scenario = ExampleScenario(1, 1);
  const auto plan = LocalPlan(scenario);
  const std::string path = JoinPath(folder.path(), "examples");
  double spent = 0;
  {
    ExampleAccounts accounts(FileSystem::Default(), path, true);
    ASSERT_OK(accounts.Begin(ExampleTask(2), "client-00007", *plan, Data(100)).status());
    ASSERT_OK_AND_ASSIGN(spent, accounts.SpentBy("client-00007", 1e-5));
    ASSERT_OK(accounts.Begin(ExampleTask(2), "client-00007", *plan, Data(100)).status());
    ASSERT_OK_AND_ASSIGN(const double again, accounts.SpentBy("client-00007", 1e-5));
    EXPECT_EQ(again, spent);
  }
  ASSERT_OK_AND_ASSIGN(const privacy::NoisedRounds rounds, ExampleRoundsOf(*plan, 100));
  EXPECT_EQ(rounds.count, 18);  // two epochs of nine steps
  EXPECT_NEAR(rounds.rate, 0.12, 0.0012);
  EXPECT_GE(rounds.rate, 0.12);
  EXPECT_GE(rounds.multiplier, 1);
  EXPECT_LT(rounds.multiplier, 1.0001);
  ASSERT_OK_AND_ASSIGN(const privacy::Spend expected, privacy::EpsilonOf({.rounds = {rounds}}, 1e-5));
  EXPECT_EQ(spent, expected.value);

  ExampleAccounts accounts(FileSystem::Default(), path, true);
  ASSERT_OK(accounts.Begin(ExampleTask(3), "client-00007", *plan, Data(100)).status());
  ASSERT_OK_AND_ASSIGN(const double both, accounts.SpentBy("client-00007", 1e-5));
  EXPECT_GT(both, spent);
  ASSERT_OK_AND_ASSIGN(const double other, accounts.SpentBy("client-00008", 1e-5));
  EXPECT_EQ(other, 0);
  ASSERT_OK_AND_ASSIGN(const auto list, ExampleAccounts::List(FileSystem::Default(), path, 1e-5));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].client, "client-00007");
  EXPECT_EQ(list[0].steps, 36);
  EXPECT_EQ(list[0].epsilon, both);
}

TEST(ExampleAccountsTest, Key_IsTheSitesOwn_AndOnlyItsOwnerReadsIt) {
  TempFolder first, second;
  const auto plan = LocalPlan(ExampleScenario(1, 1));
  std::vector<privacy::NoiseKey> keys;
  for (const TempFolder* folder : {&first, &first, &second}) {
    ExampleAccounts accounts(FileSystem::Default(), folder->path(), true);
    ASSERT_OK_AND_ASSIGN(privacy::NoiseKey key, accounts.Begin(ExampleTask(), "client-00007", *plan, Data(30)));
    keys.push_back(std::move(key));
  }
  const auto bytes = [](const privacy::NoiseKey& key) { return std::string(key.data(), key.data() + 32); };
  EXPECT_EQ(bytes(keys[0]), bytes(keys[1]));
  EXPECT_NE(bytes(keys[0]), bytes(keys[2]));
  struct stat info;
  ASSERT_EQ(stat(JoinPath(first.path(), "noise.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_OK_AND_ASSIGN(const privacy::NoiseKey replayed,
                       ExampleAccounts::KeyOf(FileSystem::Default(), first.path(), ExampleTask(), *plan, Data(30)));
  EXPECT_EQ(bytes(replayed), bytes(keys[0]));
}

// With the same noise on other sums the difference of both updates would have none. Other data, another program and
// other kernels make other sums.
TEST(ExampleAccountsTest, TaskOnOtherData_IsChargedAgain_AndHasOtherNoise) {
  TempFolder folder;
  const auto native = LocalPlan(ExampleScenario(1, 1));
  Scenario scenario = ExampleScenario(1, 1);
  scenario.run.kernels = "portable";
  const auto portable = LocalPlan(scenario);
  ASSERT_NE(native->compile_options().kernels.portable, portable->compile_options().kernels.portable);
  const auto bytes = [](const StatusOr<privacy::NoiseKey>& key) {
    EXPECT_OK(key);
    return std::string(key->data(), key->data() + 32);
  };
  ExampleAccounts accounts(FileSystem::Default(), folder.path(), true, "1.0");
  const std::string first = bytes(accounts.Begin(ExampleTask(), "client-00007", *native, Data(30)));
  ASSERT_OK_AND_ASSIGN(const double spent, accounts.SpentBy("client-00007", 1e-5));
  const std::string changed = bytes(accounts.Begin(ExampleTask(), "client-00007", *native, Data(30, "one is other")));
  EXPECT_NE(changed, first);
  ASSERT_OK_AND_ASSIGN(const double twice, accounts.SpentBy("client-00007", 1e-5));
  EXPECT_GT(twice, spent);
  EXPECT_EQ(bytes(accounts.Begin(ExampleTask(), "client-00007", *native, Data(30))), first);
  EXPECT_EQ(bytes(accounts.Begin(ExampleTask(), "client-00007", *native, Data(30, "one is other"))), changed);
  ASSERT_OK_AND_ASSIGN(const double after, accounts.SpentBy("client-00007", 1e-5));
  EXPECT_EQ(after, twice);
  ExampleAccounts newer(FileSystem::Default(), folder.path(), true, "2.0");
  EXPECT_NE(bytes(newer.Begin(ExampleTask(), "client-00007", *native, Data(30))), first);
  ASSERT_OK_AND_ASSIGN(const double thrice, accounts.SpentBy("client-00007", 1e-5));
  EXPECT_GT(thrice, twice) << "read again after another process's charge";
}

// Two processes of one site with one folder: what both are allowed together is the budget of one.
TEST(ExampleAccountsTest, TwoHolders_ShareOneBudget) {
  TempFolder alone_folder, shared_folder;
  Scenario scenario = ExampleScenario(1, 2);
  scenario.privacy.epsilon = 3;
  const auto plan = LocalPlan(scenario);
  ExampleAccounts alone(FileSystem::Default(), alone_folder.path(), true);
  int allowed = 0;
  while (alone.Begin(ExampleTask(allowed), "client-00007", *plan, Data(200)).ok()) ++allowed;
  ASSERT_GT(allowed, 2);
  ExampleAccounts one(FileSystem::Default(), shared_folder.path(), true);
  ExampleAccounts other(FileSystem::Default(), shared_folder.path(), true);
  std::atomic<int> charged = 0;
  const auto spend = [&](ExampleAccounts& accounts, int from) {
    for (int task = from; task < from + allowed; ++task) {
      if (accounts.Begin(ExampleTask(task), "client-00007", *plan, Data(200)).ok()) ++charged;
    }
  };
  {
    const std::jthread first([&] { spend(one, 0); });
    const std::jthread second([&] { spend(other, 100); });
  }
  EXPECT_EQ(charged, allowed);
  ASSERT_OK_AND_ASSIGN(const double spent, one.SpentBy("client-00007", 1e-5));
  ASSERT_OK_AND_ASSIGN(const double expected, alone.SpentBy("client-00007", 1e-5));
  EXPECT_EQ(spent, expected);
}

TEST(ExampleAccountsTest, SpentBudget_EndsTheClientsPart_AndNoOtherClients) {
  TempFolder folder;
  Scenario scenario = ExampleScenario(1, 2);
  scenario.privacy.epsilon = 3;
  const auto plan = LocalPlan(scenario);
  ExampleAccounts accounts(FileSystem::Default(), folder.path(), false);
  int tasks = 0;
  Status refused;
  for (; tasks < 100; ++tasks) {
    refused = accounts.Begin(ExampleTask(tasks), "client-00007", *plan, Data(200)).status();
    if (!refused.ok()) break;
  }
  EXPECT_GT(tasks, 1);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("epsilon 3"), HasSubstr("client-00007"))));
  const TaskFailure failure = FailureOf("task", refused);
  EXPECT_EQ(failure.code, TaskFailure::Code::kNotWilling);
  ASSERT_OK_AND_ASSIGN(const double spent, accounts.SpentBy("client-00007", 1e-5));
  EXPECT_LE(spent, 3);
  EXPECT_GT(spent, 2);
  // What was charged may still be trained again.
  EXPECT_OK(accounts.Begin(ExampleTask(tasks - 1), "client-00007", *plan, Data(200)).status());
  EXPECT_OK(accounts.Begin(ExampleTask(0), "client-00008", *plan, Data(200)).status());
}

TEST(ExampleAccountsTest, DamagedAccount_IsNamed_AndNothingIsTrained) {
  TempFolder folder;
  const auto plan = LocalPlan(ExampleScenario(1, 1));
  std::string path;
  {
    ExampleAccounts accounts(FileSystem::Default(), folder.path(), true);
    ASSERT_OK(accounts.Begin(ExampleTask(), "client-00007", *plan, Data(30)).status());
  }
  ASSERT_OK_AND_ASSIGN(const auto names, FileSystem::Default().List(folder.path()));
  for (const std::string& name : names)
    if (name.size() == 24) path = JoinPath(folder.path(), name);
  ASSERT_FALSE(path.empty());
  ASSERT_OK_AND_ASSIGN(const std::string text, FileSystem::Default().ReadAll(path));
  for (const std::string& damaged :
       {text.substr(0, text.size() - 1), text + "charged 1 2 3\n", "x" + text, text + "charged -1 1 1 1 1\n"}) {
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), path, damaged));
    ExampleAccounts accounts(FileSystem::Default(), folder.path(), true);
    EXPECT_THAT(accounts.Begin(ExampleTask(5), "client-00007", *plan, Data(30)).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
  }
}

// A task's trainer, as a client's agent has it, over these records.
struct WholeTask {
  explicit WholeTask(const Scenario& scenario, TrainerFactory trainers = nullptr)
      : plan(LocalPlan(scenario)), trainer(artifacts, stop, {}, nullptr, 0, std::move(trainers)) {
    task.plan = plan->digest();
    task.inputs = {{"model", {.form = BlobId::Form::kModel, .digest = PatternModel(*plan)->ComputeDigest()}}};
  }
  StatusOr<LocalResult> Train(const std::vector<std::string>& records) {
    const BoundData data{.name = "train", .dataset = std::make_shared<MemoryDataset>(records)};
    return trainer.Train(task, task.client_id, {&data, 1},
                         {.plan = [this]() -> StatusOr<std::string> { return plan->bytes(); },
                          .model = [](const BlobId&, const Plan& of) -> StatusOr<std::shared_ptr<const Model>> {
                            return std::shared_ptr<const Model>(PatternModel(of));
                          }});
  }
  const std::shared_ptr<const Plan> plan;
  Task task = ExampleTask();
  ArtifactCache artifacts;
  StopSignal stop;
  TaskTrainer trainer;
};

TEST(ExamplePrivacyTest, Devices_AreRefusedByName_BeforeAnythingIsTrained) {
  int made = 0;
  WholeTask whole(ExampleScenario(1, 1), [&](std::shared_ptr<PassPrograms> programs, StepMonitor* monitor) {
    ++made;
    return Trainer::Create(std::move(programs), monitor);
  });
  whole.trainer.ProtectExamples([](const Task&, std::string_view, const Plan&, const ExampleData&) {
    ADD_FAILURE() << "nothing is charged";
    return StatusOr<privacy::NoiseKey>(Internal("charged"));
  });
  const Status refused = whole.Train(DigitRecords(30)).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnimplemented,
                                AllOf(HasSubstr("privacy.unit = \"example\""), HasSubstr("without --device"))));
  const TaskFailure failure = FailureOf("task", refused);
  EXPECT_EQ(failure.code, TaskFailure::Code::kUnimplemented);
  EXPECT_EQ(failure.subject, "privacy of examples on a device");
  EXPECT_EQ(made, 0);
}

// An account is told of the very records, so that one changed byte is other work.
TEST(ExamplePrivacyTest, TaskThatIsRepeatedOnChangedData_IsOtherWork) {
  WholeTask whole(ExampleScenario(1, 1));
  std::vector<Digest> told;
  whole.trainer.ProtectExamples(
      [&](const Task&, std::string_view, const Plan&, const ExampleData& data) -> StatusOr<privacy::NoiseKey> {
        EXPECT_EQ(data.examples, 30);
        told.push_back(data.digest);
        return KeyOfBytes(1);
      });
  std::vector<std::string> records = DigitRecords(30);
  ASSERT_OK(whole.Train(records).status());
  ASSERT_OK(whole.Train(records).status());
  std::swap(records[3], records[4]);
  ASSERT_OK(whole.Train(records).status());
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], told[1]);
  EXPECT_NE(told[0], told[2]);
}

struct Refusal {
  const char* name;
  std::function<void(Scenario&)> change;
  const char* part;
};

TEST(ExamplePlanTest, WhatCannotProtectExamples_IsRefusedByName) {
  const Refusal refusals[] = {
      {"clip", [](Scenario& s) { s.privacy.clip = 0; }, "privacy.clip"},
      {"noise", [](Scenario& s) { s.privacy.noise = 0; }, "privacy.noise"},
      {"statistics", [](Scenario& s) { s.model.preset = "resnet8"; }, "running statistics"},
      {"dp_fedavg",
       [](Scenario& s) {
         s.algorithm.name = "dp_fedavg";
         s.algorithm.settings["noise_multiplier"] = 1.0;
       },
       "dp_fedavg"},
      {"measured", [](Scenario& s) { s.evaluation.federated_every = 1; }, "evaluation.federated_every"},
      {"moon", [](Scenario& s) { s.algorithm.name = "moon"; }, "instances"},
      {"ditto", [](Scenario& s) { s.algorithm.name = "ditto"; }, "passes"},
      {"partial", [](Scenario& s) { s.client.partial_work = 0.5; }, "partial_work"},
  };
  for (const Refusal& refusal : refusals) {
    Scenario scenario = ExampleScenario(1, 1);
    refusal.change(scenario);
    ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(scenario.model.preset));
    const Status refused = BuildPlan(scenario, model).status();
    EXPECT_FALSE(refused.ok()) << refusal.name;
    EXPECT_THAT(std::string(Message(refused)), HasSubstr(refusal.part)) << refusal.name;
  }
}

TEST(ExamplePlanTest, AlgorithmsOfOnePass_AreTaken) {
  for (const char* name : {"fedavg", "fedprox", "fedadam", "scaffold"}) {
    Scenario scenario = ExampleScenario(1, 1);
    scenario.algorithm.name = name;
    ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("mlp"));
    EXPECT_OK(BuildPlan(scenario, model).status()) << name;
  }
}

}  // namespace
}  // namespace rivulet
