// A device whose results are compared with the host's during training: a correct one, and one with a wrong kernel.
#include "client/training/device/checked_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "client/training/device/gpu_trainer.h"
#include "client/training/device/value_difference.h"
#include "client/training/pass_programs.h"
#include "tests/client/training/device/trained_clients.h"
#include "tests/client/training/local_plan.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using testing::Came;
using testing::Client;
using testing::ClientsOf;
using testing::ExpectSameBits;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::PatternModel;
using testing::TrainAll;

// The emulated device, of whose kernels one does nothing.
class WrongBackend {
 public:
  explicit WrongBackend(std::string_view kernel)
      : api_(gpu::EmulatedBackend()), kernels_(api_.kernels, api_.kernels + api_.kernel_count) {
    for (RivuletGpuKernel& one : kernels_) {
      if (one.name != kernel) continue;
      one.launch = [](void*, const void*) { return 0; };
      found_ = true;
    }
    api_.kernels = kernels_.data();
  }
  bool found() const { return found_; }
  TrainingDevice Open() const {
    auto device = GpuDevice::Open(api_, 0);
    EXPECT_OK(device);
    return {*device};
  }

 private:
  RivuletGpuApi api_;
  std::vector<RivuletGpuKernel> kernels_;
  bool found_ = false;
};

StatusOr<std::unique_ptr<Trainer>> Checked(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on) {
  return NewCheckedTrainer(std::make_shared<PassPrograms>(plan), on);
}

TEST(CheckedTrainer, DeviceThatAgrees_GivesItsOwnResults) {
  for (const char* algorithm : {"fedavg", "scaffold"}) {
    Scenario scenario = LocalScenario();
    scenario.algorithm.name = algorithm;
    const auto plan = LocalPlan(scenario);
    const auto base = PatternModel(*plan);
    AlignedBuffer control(plan->layout()->trained_bytes());
    std::memset(control.data(), 0, control.size());
    const AlignedBuffer* const all[] = {&control};
    const std::span<const AlignedBuffer* const> broadcasts(all, plan->flat_names().broadcast.size());
    const std::vector<Client> clients = ClientsOf(*plan, {12, 25, 8});
    const WrongBackend right("none");
    const TrainingDevice on = right.Open();
    ASSERT_OK_AND_ASSIGN(const auto checked, Checked(plan, on));
    ASSERT_OK_AND_ASSIGN(const auto device, NewGpuTrainer(std::make_shared<PassPrograms>(plan), on));
    const std::vector<Came> came = TrainAll(*checked, clients, *base, 3, broadcasts);
    for (const Came& one : came) EXPECT_OK(one.status);
    ExpectSameBits(came, TrainAll(*device, clients, *base, 3, broadcasts));
  }
}

Scenario Algorithm(const std::string& name, const SettingValues& settings = {}) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = name;
  scenario.algorithm.settings = settings;
  return scenario;
}

// Plans whose tasks bring numbers, of two gradients a step, of clients who choose, and of a part of the work.
std::vector<Scenario> UnlikePlans() {
  Scenario partial = LocalScenario();
  partial.client.epochs = 5;
  partial.client.partial_work = 0.5;
  return {Algorithm("agnostic"),
          Algorithm("fedprox", {{"mu", 0.1}, {"mu_step", 0.1}}),
          Algorithm("mime"),
          Algorithm("per_fedavg", {{"hessian_step", 0.01}}),
          Algorithm("ifca", {{"clusters", int64_t{3}}}),
          Algorithm("hypcluster", {{"clusters", int64_t{2}}}),
          partial};
}

// With what their tasks bring.
struct Tasks {
  explicit Tasks(const Plan& plan) : base(PatternModel(plan)), clients(ClientsOf(plan, {12, 25, 8, 20})) {
    for (size_t i = 0; i < clients.size(); ++i) {
      for (const std::string& name : plan.flat_names().numbers) {
        clients[i].task.numbers[name] = 0.25 * static_cast<double>(i + 1);
      }
    }
    for (size_t v = 0; v < plan.flat_names().broadcast.size(); ++v) {
      AlignedBuffer& vector = vectors.emplace_back(plan.layout()->trained_bytes());
      auto* const values = reinterpret_cast<float*>(vector.data());
      for (size_t i = 0; i < vector.size() / sizeof(float); ++i) {
        values[i] = 1e-3f * (static_cast<float>((i * 53 + v * 29) % 97) - 48);
      }
    }
    for (const AlignedBuffer& vector : vectors) broadcasts.push_back(&vector);
  }
  std::shared_ptr<const Model> base;
  std::vector<Client> clients;
  std::vector<AlignedBuffer> vectors;
  std::vector<const AlignedBuffer*> broadcasts;
};

TEST(CheckedTrainer, PlansOfAllKinds_AreHeldAgainstTheHost) {
  for (const Scenario& scenario : UnlikePlans()) {
    SCOPED_TRACE(scenario.algorithm.name);
    const auto plan = LocalPlan(scenario);
    const Tasks tasks(*plan);
    const WrongBackend right("none");
    const TrainingDevice on = right.Open();
    ASSERT_OK_AND_ASSIGN(const auto checked, Checked(plan, on));
    ASSERT_OK_AND_ASSIGN(const auto device, NewGpuTrainer(std::make_shared<PassPrograms>(plan), on));
    const std::vector<Came> came = TrainAll(*checked, tasks.clients, *tasks.base, 4, tasks.broadcasts);
    ASSERT_EQ(came.size(), 4u);
    for (const Came& one : came) EXPECT_OK(one.status);
    ExpectSameBits(came, TrainAll(*device, tasks.clients, *tasks.base, 4, tasks.broadcasts));
  }
}

// Each of them has steps that the kernel is part of, and updates that follow from it.
TEST(CheckedTrainer, KernelThatIsWrong_IsFoundInPlansOfAllKinds) {
  for (const Scenario& scenario : UnlikePlans()) {
    SCOPED_TRACE(scenario.algorithm.name);
    const auto plan = LocalPlan(scenario);
    const Tasks tasks(*plan);
    const WrongBackend wrong("sparse_cross_entropy_float_int64_t");
    ASSERT_TRUE(wrong.found());
    ASSERT_OK_AND_ASSIGN(const auto checked, Checked(plan, wrong.Open()));
    for (const Came& one : TrainAll(*checked, tasks.clients, *tasks.base, 4, tasks.broadcasts)) {
      EXPECT_THAT(one.status, StatusIs(absl::StatusCode::kInternal, HasSubstr("otherwise than the host")));
    }
  }
}

TEST(CheckedTrainer, TaskWithoutItsNumber_IsToldAsSuch) {
  const auto plan = LocalPlan(Algorithm("fedprox", {{"mu", 0.1}, {"mu_step", 0.1}}));
  Tasks tasks(*plan);
  tasks.clients[1].task.numbers.clear();
  const WrongBackend right("none");
  ASSERT_OK_AND_ASSIGN(const auto checked, Checked(plan, right.Open()));
  const std::vector<Came> came = TrainAll(*checked, tasks.clients, *tasks.base, 4, tasks.broadcasts);
  EXPECT_OK(came[0].status);
  EXPECT_THAT(came[1].status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no number")));
  EXPECT_OK(came[2].status);
}

TEST(CheckedTrainer, KernelThatIsWrong_IsRefusedByItsOp) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const std::vector<Client> clients = ClientsOf(*plan, {12});
  const LaneTask lane{&clients[0].task, clients[0].name, base.get(), clients[0].examples.get()};
  const WrongBackend wrong("sparse_cross_entropy_float_int64_t");
  ASSERT_TRUE(wrong.found());
  ASSERT_OK_AND_ASSIGN(const auto checked, Checked(plan, wrong.Open()));
  ASSERT_OK_AND_ASSIGN(const auto results, checked->Train({&lane, 1}));
  EXPECT_THAT(results[0].status,
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("computes SparseSoftmaxCrossEntropyWithLogits '"),
                                                          HasSubstr("otherwise than the host: value "))));
}

// Gathering is no op of the step: what it does wrong shows in the update.
TEST(CheckedTrainer, BatchThatIsWrong_IsRefusedByTheUpdate) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const std::vector<Client> clients = ClientsOf(*plan, {12});
  const LaneTask lane{&clients[0].task, clients[0].name, base.get(), clients[0].examples.get()};
  const WrongBackend wrong("gather_rows");
  ASSERT_TRUE(wrong.found());
  ASSERT_OK_AND_ASSIGN(const auto checked, Checked(plan, wrong.Open()));
  ASSERT_OK_AND_ASSIGN(const auto results, checked->Train({&lane, 1}));
  EXPECT_THAT(results[0].status, StatusIs(absl::StatusCode::kInternal, HasSubstr("though each op agrees")));
}

TEST(ValueDifference, OfTheNorm_NamesTheValueThatIsFarthestOff) {
  ValueDifference difference;
  difference.Take(3, 3);
  difference.Take(4.01, 4);
  EXPECT_TRUE(difference.IsWithin(2.1e-3));
  EXPECT_FALSE(difference.IsWithin(1.9e-3));
  EXPECT_THAT(difference.ToString(), HasSubstr("value 1 of 2 is 4.01, on the host 4;"));
}

TEST(ValueDifference, NotFiniteOnOneSideAlone_IsOff) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  const auto within = [](double value, double expected) {
    ValueDifference difference;
    difference.Take(value, expected);
    return difference.IsWithin(1);
  };
  EXPECT_TRUE(within(nan, nan));
  EXPECT_FALSE(within(nan, 1));
  EXPECT_FALSE(within(1, infinite));
  EXPECT_FALSE(within(nan, infinite));
  EXPECT_TRUE(within(infinite, infinite));
}

}  // namespace
}  // namespace rivulet
