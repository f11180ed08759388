#include "client/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "client/training/pass_programs.h"
#include "engine/graphdef/graph_def.h"
#include "engine/profile/step_monitor.h"
#include "federated/plan/example_source.h"
#include "federated/plan/flat_scope.h"
#include "federated/random/streams.h"
#include "proto/federated/plan.pb.h"
#include "proto/graph/example.pb.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::TrainOne;

constexpr int kPixels = 784, kClasses = 10;

Task LocalTask(uint16_t ordinal = 0) {
  Task task;
  task.id = "run-r3-a1-client-00007-0";
  task.base_version = 2;
  task.ordinal = ordinal;
  task.stream_key = ClientKey(42, "client-00007");
  return task;
}

std::unique_ptr<DatasetExamples> Examples(std::vector<std::string> records, const Plan& plan) {
  auto decoder = ExampleDecoder::Create(plan.features());
  EXPECT_OK(decoder);
  return std::make_unique<DatasetExamples>(std::make_shared<MemoryDataset>(std::move(records)), std::nullopt, *decoder);
}

std::unique_ptr<Trainer> NewTrainer(const std::shared_ptr<const Plan>& plan) {
  auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
  EXPECT_OK(trainer);
  return *std::move(trainer);
}

// Softmax regression by hand in float64: the delta in wire order (kernel [784,10] and bias [10], in the layout's order)
// and the mean loss of the last epoch.
struct Reference {
  std::vector<double> kernel, bias, kernel_slot, bias_slot;
  double loss = 0;

  std::vector<double> Train(const Plan& plan, const Scenario& scenario, const Model& base,
                            const std::vector<std::string>& records, const Task& task) {
    for (const Slice& slice : plan.layout()->slices()) {
      const auto values = base.tensor(slice).flat<const float>();
      (slice.elements == kClasses ? bias : kernel).assign(values.begin(), values.end());
    }
    const std::vector<double> kernel0 = kernel, bias0 = bias;
    kernel_slot.assign(kernel.size(), 0);
    bias_slot.assign(bias.size(), 0);
    const size_t n = records.size(), batch = static_cast<size_t>(scenario.client.batch_size);
    for (int64_t epoch = 0; epoch < scenario.client.epochs; ++epoch) {
      std::vector<uint32_t> order(n);
      std::iota(order.begin(), order.end(), 0u);
      if (scenario.client.shuffle) {
        Draws draws(
            StreamFor(task.stream_key, Purpose::kShuffle, static_cast<uint32_t>(task.base_version), task.ordinal),
            static_cast<uint32_t>(epoch));
        order = Permutation(draws, static_cast<uint32_t>(n));
      }
      loss = 0;
      for (size_t begin = 0; begin < n; begin += batch) {
        const size_t count = std::min(batch, n - begin);
        std::vector<double> kernel_gradient(kernel.size()), bias_gradient(bias.size());
        for (size_t row = 0; row < count; ++row) {
          proto::Example example;
          example.ParseFromString(records[order[begin + row]]);
          const auto& features = example.features().feature();
          const std::string& image = features.at("image").bytes_list().value(0);
          const auto label = static_cast<size_t>(features.at("label").int64_list().value(0));
          double logits[kClasses], largest = -1e300, sum = 0;
          for (size_t c = 0; c < kClasses; ++c) {
            logits[c] = bias[c];
            for (size_t k = 0; k < kPixels; ++k) {
              logits[c] += static_cast<uint8_t>(image[k]) / 255.0 * kernel[k * kClasses + c];
            }
            largest = std::max(largest, logits[c]);
          }
          for (const double logit : logits) sum += std::exp(logit - largest);
          loss += std::log(sum) + largest - logits[label];
          for (size_t c = 0; c < kClasses; ++c) {
            const double g = (std::exp(logits[c] - largest) / sum - (c == label ? 1 : 0)) / static_cast<double>(count);
            bias_gradient[c] += g;
            for (size_t k = 0; k < kPixels; ++k) {
              kernel_gradient[k * kClasses + c] += g * static_cast<uint8_t>(image[k]) / 255.0;
            }
          }
        }
        Apply(scenario.client.optimizer, kernel_gradient, kernel, kernel_slot);
        Apply(scenario.client.optimizer, bias_gradient, bias, bias_slot);
      }
      loss /= static_cast<double>(n);
    }
    std::vector<double> delta;
    for (const Slice& slice : plan.layout()->slices()) {
      const bool is_bias = slice.elements == kClasses;
      const std::vector<double>&now = is_bias ? bias : kernel, &then = is_bias ? bias0 : kernel0;
      for (size_t i = 0; i < now.size(); ++i) delta.push_back(now[i] - then[i]);
    }
    return delta;
  }

  static void Apply(const OptimizerConfig& optimizer, const std::vector<double>& gradient,
                    std::vector<double>& variable, std::vector<double>& slot) {
    const auto momentum = optimizer.settings.find("momentum"), nesterov = optimizer.settings.find("nesterov");
    for (size_t i = 0; i < variable.size(); ++i) {
      double direction = gradient[i];
      if (optimizer.kind == "momentum") {
        const double share = std::get<double>(momentum->second);
        slot[i] = share * slot[i] + gradient[i];
        const bool ahead = nesterov != optimizer.settings.end() && std::get<bool>(nesterov->second);
        direction = ahead ? gradient[i] + share * slot[i] : slot[i];
      }
      variable[i] -= optimizer.learning_rate * direction;
    }
  }
};

void ExpectMatchesReference(const Scenario& scenario, int examples) {
  const auto plan = LocalPlan(scenario);
  const auto base = PatternModel(*plan);
  const std::vector<std::string> records = DigitRecords(examples);
  const auto result = TrainOne(*NewTrainer(plan), LocalTask(), "client-00007", *base, *Examples(records, *plan));
  ASSERT_OK(result);
  Reference reference;
  const std::vector<double> wanted = reference.Train(*plan, scenario, *base, records, LocalTask());
  const std::vector<float> delta = result->delta;
  ASSERT_EQ(delta.size(), wanted.size());
  double largest = 0, worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    worst = std::max(worst, std::abs(delta[i] - wanted[i]));
  }
  EXPECT_GT(largest, 1e-2);  // it trained
  EXPECT_LT(worst, 5e-6);    // float32 sums of 784 products over a few steps
  EXPECT_NEAR(*result->train_loss, reference.loss, 1e-5);
  EXPECT_EQ(result->examples, examples);
  const int64_t batches = (examples + scenario.client.batch_size - 1) / scenario.client.batch_size;
  EXPECT_EQ(result->steps, scenario.client.epochs * batches);
}

TEST(TrainerTest, Sgd_MatchesAHandWrittenLoop) { ExpectMatchesReference(LocalScenario(), 30); }

TEST(TrainerTest, LastBatchSmaller_IsItsOwnSize) { ExpectMatchesReference(LocalScenario(), 27); }

TEST(TrainerTest, FewerExamplesThanABatch_AreOneBatch) { ExpectMatchesReference(LocalScenario(), 3); }

TEST(TrainerTest, WithoutShuffle_TakesRecordsInOrder) {
  Scenario scenario = LocalScenario();
  scenario.client.shuffle = false;
  ExpectMatchesReference(scenario, 25);
}

TEST(TrainerTest, Momentum_MatchesAHandWrittenLoop) {
  Scenario scenario = LocalScenario();
  scenario.client.optimizer = {.kind = "momentum", .learning_rate = 0.05, .settings = {{"momentum", 0.9}}};
  ExpectMatchesReference(scenario, 27);
}

TEST(TrainerTest, NesterovMomentum_MatchesAHandWrittenLoop) {
  Scenario scenario = LocalScenario();
  scenario.client.optimizer = {
      .kind = "momentum", .learning_rate = 0.05, .settings = {{"momentum", 0.9}, {"nesterov", true}}};
  ExpectMatchesReference(scenario, 27);
}

TEST(TrainerTest, MomentumZero_EqualsSgdToTheBit) {
  Scenario momentum = LocalScenario();
  momentum.client.optimizer = {.kind = "momentum", .learning_rate = 0.2, .settings = {{"momentum", 0.0}}};
  std::vector<float> deltas[2];
  for (const bool with : {false, true}) {
    const auto plan = LocalPlan(with ? momentum : LocalScenario());
    const auto result =
        TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan), *Examples(DigitRecords(20), *plan));
    ASSERT_OK(result);
    deltas[with] = result->delta;
  }
  EXPECT_EQ(deltas[0], deltas[1]);
}

TEST(TrainerTest, Result_TellsWhatWasTrained) {
  const auto plan = LocalPlan();
  const auto result =
      TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan), *Examples(DigitRecords(27), *plan));
  ASSERT_OK(result);
  EXPECT_EQ(result->examples, 27);
  EXPECT_EQ(result->steps, 6);
  EXPECT_EQ(std::ssize(result->delta), plan->layout()->update_elements());
  EXPECT_EQ(result->declared, (Scalars{{"examples", 27}, {"steps", 6}, {"train_loss", *result->train_loss}}));
  EXPECT_GT(result->train_seconds, 0);
}

// What a fold reads is what was trained, where it was trained: a task costs no copy of its model.
TEST(TrainerTest, Parts_LieInTheTrainersMemoryInWireOrder) {
  Scenario scenario = LocalScenario();
  scenario.model.preset = "resnet8";  // with padding between slices, and statistics that are sent along
  const auto plan = LocalPlan(scenario);
  const ModelLayout& layout = *plan->layout();
  ASSERT_GT(layout.elements(Segment::kShared), 0);
  const auto base = PatternModel(*plan);
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (const FeatureSpec& feature : plan->features()) {
    if (feature.encoding == FeatureSpec::Encoding::kInt64)
      features[feature.feature].mutable_int64_list()->add_value(1);
    else
      features[feature.feature].mutable_bytes_list()->add_value(
          std::string(static_cast<size_t>(feature.shape.elements()), 'x'));
  }
  const auto examples = Examples(std::vector<std::string>(3, example.SerializeAsString()), *plan);
  const auto trainer = NewTrainer(plan);
  const Task task = LocalTask();
  const LaneTask lane{&task, "a", base.get(), examples.get()};
  const float* first = nullptr;
  const auto* const then = reinterpret_cast<const float*>(base->arena().data());
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> results, trainer->Train({&lane, 1}));
    ASSERT_OK(results[0].status);
    ASSERT_EQ(results[0].parts.size(), 1u);
    const std::span<const FloatRun> runs = results[0].parts[0].runs;
    int64_t elements = 0;
    for (const FloatRun& run : runs) elements += run.count;
    EXPECT_EQ(elements, layout.update_elements());
    EXPECT_LT(runs.size(), layout.slices().size());  // slices without padding between are one run
    if (round == 0) first = runs[0].values;
    EXPECT_EQ(runs[0].values, first);
    // Every value is where its slice says, counted from the first.
    for (const Slice& slice : layout.slices()) {
      if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
      int64_t before = slice.wire_offset;
      size_t run = 0;
      while (before >= runs[run].count) before -= runs[run++].count;
      EXPECT_EQ(runs[run].values + before - first, static_cast<int64_t>(slice.offset / sizeof(float))) << slice.name;
      EXPECT_EQ(runs[run].minus + before - then, static_cast<int64_t>(slice.offset / sizeof(float))) << slice.name;
    }
  }
}

// Of `LocalScenario` with other passes, sources or flat variables.
std::shared_ptr<const Plan> ForgedPlan(const Scenario& scenario, const std::function<void(proto::Plan&)>& forge) {
  proto::Plan message;
  EXPECT_TRUE(message.ParseFromString(testing::PlanBytes(scenario)));
  forge(message);
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(message.SerializeAsString());
  EXPECT_OK(plan);
  return *plan;
}

// Epochs are counted over the passes, so that the second pass shuffles anew; and what the passes of plain SGD share is
// the model alone.
TEST(TrainerTest, TwoPassesOfOneEpoch_AreOneOfTwoToTheBit) {
  Scenario once = LocalScenario();
  once.client.epochs = 1;
  const auto twice = ForgedPlan(once, [](proto::Plan& plan) {
    proto::LocalProgramDef& program = *plan.mutable_programs(0);
    *program.add_passes() = program.passes(0);
  });
  const auto examples = Examples(DigitRecords(27), *twice);
  const auto base = PatternModel(*twice);
  ASSERT_OK_AND_ASSIGN(const auto passes, TrainOne(*NewTrainer(twice), LocalTask(), "a", *base, *examples));
  ASSERT_OK_AND_ASSIGN(const auto epochs, TrainOne(*NewTrainer(LocalPlan()), LocalTask(), "a", *base, *examples));
  EXPECT_EQ(passes.delta, epochs.delta);
  EXPECT_EQ(passes.declared, epochs.declared);
}

TEST(TrainerTest, MaxSteps_BoundEachPass) {
  const auto plan = ForgedPlan(LocalScenario(), [](proto::Plan& forged) {
    proto::LocalProgramDef& program = *forged.mutable_programs(0);
    *program.add_passes() = program.passes(0);
    program.mutable_passes(0)->set_max_steps(4);
    program.mutable_passes(1)->set_max_steps(1);
  });
  ASSERT_OK_AND_ASSIGN(const auto result, TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan),
                                                   *Examples(DigitRecords(27), *plan)));
  EXPECT_EQ(result.steps, 5);
}

// A part that is no difference of two others is written by the end of a pass.
TEST(TrainerTest, PartOfAnUpdateVector_IsWhatTheEndWrote) {
  const auto plain = LocalPlan();
  const auto halved = ForgedPlan(LocalScenario(), [&](proto::Plan& plan) {
    FlatScope f(*plain->layout());
    f.Assign("update/half", f.Scale(0.5, f.Sub(f.params(), f.base_params())));
    ASSERT_OK_AND_ASSIGN(const Graph end, std::move(f).Finish());
    plan.mutable_flats()->add_update("half");
    plan.mutable_programs(0)->mutable_passes(0)->set_end(SerializeGraph(end));
    proto::PartSourceDef& part = *plan.mutable_programs(0)->mutable_parts(0);
    part.set_from("update/half");
    part.clear_less();
  });
  const auto examples = Examples(DigitRecords(27), *plain);
  const auto base = PatternModel(*plain);
  ASSERT_OK_AND_ASSIGN(const auto whole, TrainOne(*NewTrainer(plain), LocalTask(), "a", *base, *examples));
  ASSERT_OK_AND_ASSIGN(const auto half, TrainOne(*NewTrainer(halved), LocalTask(), "a", *base, *examples));
  ASSERT_EQ(half.delta.size(), whole.delta.size());
  for (size_t i = 0; i < half.delta.size(); ++i) ASSERT_EQ(half.delta[i], 0.5f * whole.delta[i]) << i;
}

// What several lanes are trained for at once is what each would be by itself: the values bit for bit, and what is
// declared. A dense layer wider than a block, one that is no multiple of a vector, and none; batches of one row to the
// largest whose gradient is one block; shuffled or the first of many examples.
TEST(TrainerTest, SeveralLanesAtOnce_HaveTheBitsOfEachByItself) {
  struct Row {
    const char* preset;
    int64_t batch_size, examples;
    uint32_t max_steps;
  };
  for (const Row& row : {Row{"mlp", 6, 6, 0}, Row{"mlp", 16, 16, 0}, Row{"mlp", 10, 1, 0}, Row{"mlp", 3, 40, 1},
                         Row{"logistic_regression", 10, 10, 0}, Row{"logistic_regression", 32, 31, 0}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", row.preset, row.batch_size, row.examples));
    Scenario scenario = LocalScenario();
    scenario.model.preset = row.preset;
    scenario.client.epochs = 1;
    scenario.client.batch_size = row.batch_size;
    const auto plan = ForgedPlan(scenario, [&](proto::Plan& message) {
      message.mutable_programs(0)->mutable_passes(0)->set_max_steps(row.max_steps);
    });
    const auto base = PatternModel(*plan);
    const auto trainer = NewTrainer(plan);
    const int most = trainer->MostLanes(TaskKind::kTrain, row.examples);
    ASSERT_GE(most, 2);
    std::vector<Task> tasks;
    std::vector<std::unique_ptr<DatasetExamples>> examples;
    std::vector<testing::Trained> alone;
    for (int i = 0; i < most; ++i) {
      tasks.push_back(LocalTask(static_cast<uint16_t>(i)));
      examples.push_back(Examples(DigitRecords(static_cast<int>(row.examples), i), *plan));
      ASSERT_OK_AND_ASSIGN(alone.emplace_back(), TrainOne(*trainer, tasks.back(), "a", *base, *examples.back()));
    }
    for (const int lanes : {2, most - 1, most}) {
      std::vector<LaneTask> together;
      for (int i = 0; i < lanes; ++i) {
        const auto at = static_cast<size_t>(i);
        together.push_back({&tasks[at], "a", base.get(), examples[at].get()});
      }
      ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> results, trainer->Train(together));
      ASSERT_EQ(std::ssize(results), lanes);
      for (size_t i = 0; i < results.size(); ++i) {
        ASSERT_OK(results[i].status);
        EXPECT_EQ(results[i].declared, alone[i].declared);
        EXPECT_EQ(results[i].train_loss, alone[i].train_loss);
        ASSERT_EQ(results[i].parts.size(), 1u);
        const MadePart* const made = results[i].parts[0].made;
        ASSERT_NE(made, nullptr);
        EXPECT_EQ(made->elements(), std::ssize(alone[i].delta));
        std::vector<float> delta;
        for (size_t block = 0; block < made->blocks(); ++block) {
          const FloatRun run = made->Make(block);
          for (int64_t at = 0; at < run.count; ++at) delta.push_back(ValueOf(run, at));
        }
        EXPECT_EQ(delta, alone[i].delta);
      }
    }
  }
}

TEST(TrainerTest, PlansThatLanesCannotRun_HaveOne) {
  const auto lanes = [](const Scenario& scenario, int64_t examples, TaskKind kind = TaskKind::kTrain) {
    return NewTrainer(LocalPlan(scenario))->MostLanes(kind, examples);
  };
  Scenario one = LocalScenario();
  one.client.epochs = 1;
  EXPECT_GE(lanes(one, 10), 2);
  EXPECT_EQ(lanes(one, 11), 1) << "two steps";
  EXPECT_EQ(lanes(one, 0), 1);
  EXPECT_EQ(lanes(one, 10, TaskKind::kEvaluate), 1);
  EXPECT_EQ(lanes(LocalScenario(), 10), 1) << "two epochs";
  Scenario momentum = one;
  momentum.client.optimizer.kind = "momentum";
  momentum.client.optimizer.settings["momentum"] = 0.9;
  EXPECT_EQ(lanes(momentum, 10), 1);
  Scenario statistics = one;
  statistics.model.preset = "resnet8";
  EXPECT_EQ(lanes(statistics, 2), 1) << "statistics that are sent along";
}

// Every run of the command line has a monitor, whether or not somebody looks.
TEST(TrainerTest, MonitorThatNobodyUses_LeavesTheLanes) {
  struct Sink final : RunSink {
    bool Wants() override { return MayWant(); }
    bool MayWant() const override { return open; }
    void Take(const RecordedRun&) override { ++runs; }
    bool open = false;
    int runs = 0;
  } sink;
  StepMonitor monitor({&sink});
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 1;
  const auto plan = LocalPlan(scenario);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan), &monitor));
  EXPECT_GE(trainer->MostLanes(TaskKind::kTrain, 7), 2);
  sink.open = true;
  EXPECT_EQ(trainer->MostLanes(TaskKind::kTrain, 7), 1);
  ASSERT_OK(TrainOne(*trainer, LocalTask(), "a", *PatternModel(*plan), *Examples(DigitRecords(7), *plan)));
  EXPECT_EQ(sink.runs, 1);
}

// Numbers of the round, such as a clip that moves, are the same for all lanes.
TEST(TrainerTest, LanesOfAPlanWithNumbers_DeclareThem) {
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 1;
  scenario.privacy.clip = 2;
  scenario.server.weights = "uniform";
  scenario.algorithm = {.name = "dp_fedavg",
                        .settings = {{"noise_multiplier", 1.0},
                                     {"noise_source", std::string("seeded")},
                                     {"clip_quantile", 0.5},
                                     {"clip_count_stddev", 1.0}}};
  const auto plan = LocalPlan(scenario);
  const auto trainer = NewTrainer(plan);
  const auto base = PatternModel(*plan);
  ASSERT_GE(trainer->MostLanes(TaskKind::kTrain, 7), 2);
  std::vector<Task> tasks;
  std::vector<std::unique_ptr<DatasetExamples>> examples;
  std::vector<testing::Trained> alone;
  for (int i = 0; i < 2; ++i) {
    tasks.push_back(LocalTask(static_cast<uint16_t>(i)));
    tasks.back().numbers = {{"clip", 0.75}};
    examples.push_back(Examples(DigitRecords(7, i), *plan));
    ASSERT_OK_AND_ASSIGN(alone.emplace_back(), TrainOne(*trainer, tasks.back(), "a", *base, *examples.back()));
    EXPECT_EQ(alone.back().declared.at("clip"), 0.75);
  }
  const auto train = [&] {
    const LaneTask together[] = {{&tasks[0], "a", base.get(), examples[0].get()},
                                 {&tasks[1], "a", base.get(), examples[1].get()}};
    return trainer->Train(together);
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> results, train());
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_OK(results[i].status);
    EXPECT_EQ(results[i].declared, alone[i].declared);
  }
  tasks[1].numbers["clip"] = 0.5;
  EXPECT_THAT(train(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not alike")));
  tasks[0].numbers.clear();
  tasks[1].numbers.clear();
  EXPECT_THAT(train(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no number 'clip'")));
}

TEST(TrainerTest, LanesThatDoNotGoTogether_AreRefused) {
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 1;
  const auto plan = LocalPlan(scenario);
  const auto trainer = NewTrainer(plan);
  const auto base = PatternModel(*plan);
  EXPECT_THAT(trainer->Train({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no task")));
  const auto seven = Examples(DigitRecords(7), *plan), eight = Examples(DigitRecords(8), *plan);
  const Task task = LocalTask();
  Task later = task;
  ++later.base_version;
  const LaneTask lane{&task, "a", base.get(), seven.get()};
  EXPECT_THAT(trainer->Train(std::vector<LaneTask>(100, lane)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lanes for such tasks, and not 100")));
  const auto other_base = PatternModel(*plan);
  for (const LaneTask& other :
       {LaneTask{&task, "a", base.get(), eight.get()}, LaneTask{&later, "a", base.get(), seven.get()},
        LaneTask{&task, "a", other_base.get(), seven.get()}}) {
    const LaneTask both[] = {lane, other};
    EXPECT_THAT(trainer->Train(both), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not alike")));
  }
}

// Property: the delta is a function of task, client, base and data alone. Trainers on several threads share one cache,
// each with another history of clients and batch sizes before.
TEST(TrainerTest, AnyTrainerOnAnyThread_GivesTheSameBits) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto programs = std::make_shared<PassPrograms>(plan);
  const auto examples = Examples(DigitRecords(33), *plan);
  std::vector<std::vector<float>> deltas(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < deltas.size(); ++i) {
    threads.emplace_back([&, i] {
      auto trainer = Trainer::Create(programs);
      ASSERT_OK(trainer);
      for (size_t other = 0; other < i; ++other) {
        const auto before = Examples(DigitRecords(11 + static_cast<int>(other), 9), *plan);
        ASSERT_OK(TrainOne(**trainer, LocalTask(), "other", *base, *before));
      }
      const auto result = TrainOne(**trainer, LocalTask(), "client-00007", *base, *examples);
      ASSERT_OK(result);
      deltas[i] = result->delta;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 1; i < deltas.size(); ++i) EXPECT_EQ(deltas[i], deltas[0]) << i;
}

TEST(TrainerTest, AnotherOrdinalSeedOrClient_ShufflesAnew) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto examples = Examples(DigitRecords(33), *plan);
  const auto trainer = NewTrainer(plan);
  const auto train = [&](uint64_t seed, const char* client, uint16_t ordinal = 0) {
    Task task = LocalTask(ordinal);
    task.stream_key = ClientKey(seed, client);
    return TrainOne(*trainer, task, client, *base, *examples)->delta;
  };
  const std::vector<float> first = train(42, "a");
  EXPECT_EQ(first, train(42, "a"));
  EXPECT_NE(first, train(42, "a", 1));
  EXPECT_NE(first, train(42, "b"));
  EXPECT_NE(first, train(43, "a"));
}

TEST(TrainerTest, NoExamples_IsRefused) {
  const auto plan = LocalPlan();
  const auto result = TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan), *Examples({}, *plan));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'a' has no examples")));
}

TEST(TrainerTest, LabelOutOfRange_NamesFileRecordByteAndValue) {
  const auto plan = LocalPlan();
  for (const int64_t label : {int64_t{10}, int64_t{-1}, INT64_MIN}) {
    std::vector<std::string> records = DigitRecords(12);
    records[11] = DigitExample(std::string(784, 'x'), label);
    const auto result = TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan), *Examples(records, *plan));
    EXPECT_THAT(
        result,
        StatusIs(absl::StatusCode::kInvalidArgument,
                 ::testing::AllOf(HasSubstr("memory.tfrecord: record 11 at byte"),
                                  HasSubstr(fmt::format("'label' is {}, but the model has classes 0 to 9", label)))));
  }
}

TEST(TrainerTest, ImageOfAnotherSize_NamesBothSizes) {
  const auto plan = LocalPlan();
  const auto result = TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan),
                               *Examples({DigitExample(std::string(783, 'x'), 1)}, *plan));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("783 bytes, but the model takes 784")));
}

TEST(TrainerTest, RecordThatIsNoExample_IsRefusedByRecord) {
  const auto plan = LocalPlan();
  const auto result = TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan),
                               *Examples({std::string("\xff\xff\xff")}, *plan));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("record 0 at byte 0")));
}

TEST(TrainerTest, BaseModelOfAnotherLayout_IsRefused) {
  const auto plan = LocalPlan();
  Scenario mlp = LocalScenario();
  mlp.model.preset = "mlp";
  const auto result =
      TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*LocalPlan(mlp)), *Examples(DigitRecords(3), *plan));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TrainerTest, Cancelled_Stops) {
  const auto plan = LocalPlan();
  const CancellationToken cancel = CancellationToken::Create();
  cancel.Cancel();
  const auto result =
      TrainOne(*NewTrainer(plan), LocalTask(), "a", *PatternModel(*plan), *Examples(DigitRecords(3), *plan), cancel);
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace rivulet
