// A training step cut at random places over several processes trains to the bits of one process.
//
// RIVULET_CUTS=FIRST:COUNT and RIVULET_CUT_STEPS=N choose the cuts and the steps of each; docs/internals/results.md has
// the figures of 200 cuts.
#include <cstdio>
#include <cstdlib>

#include "engine/base/philox.h"
#include "engine/graphdef/graph_def.h"
#include "engine/presets/presets.h"
#include "proto/graph/graph.pb.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/random_graph.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::rivulet::testing::BitsOf;
using ::rivulet::testing::Processes;

constexpr int64_t kCutBatch = 8;
constexpr uint64_t kCutSeed = 48;

class CutTraining {
 public:
  Status Build() {
    RIVULET_ASSIGN_OR_RETURN(ModelDef model, Preset("mnist_cnn"));
    RIVULET_ASSIGN_OR_RETURN(step_, testing::AddTrainingStep(model, {.learning_rate = 0.05}));
    init_ = model.init_target;
    image_ = model.input.placeholder;
    label_ = model.label.placeholder;
    loss_ = model.train_loss;
    for (const auto& node : model.graph.nodes()) {
      bool holds = false;
      for (const Output& input : node->inputs()) holds |= input.dtype() == DType::kResource;
      placeable_.push_back(!holds);  // the others stay with the variable that they take
    }
    for (const ModelVariable& variable : model.variables) {
      RIVULET_ASSIGN_OR_RETURN(const Output handle, FindVariable(model.graph, variable.name));
      const Output read = Scope(model.graph).Op("ReadVariableOp", {handle}, {{"dtype", variable.spec.dtype}});
      reads_.push_back(read.name());
      placeable_.push_back(false);
    }
    graph_def_ = SerializeGraph(model.graph);
    return absl::OkStatus();
  }

  StatusOr<Graph> Whole() const { return ParseGraph(graph_def_); }

  // By `seed`: where the list of nodes, whose inputs come before them, is cut at up to six places; where some nodes
  // stay anywhere; or where each node is anywhere.
  StatusOr<Graph> Cut(uint32_t seed, int tasks) const {
    uint32_t index = 0;
    const auto draw = [&](size_t bound) {
      return Philox4x32({{seed, 48}}, {index++, 0, 0, 0})[0] % static_cast<uint32_t>(bound);
    };
    proto::GraphDef graph;
    EXPECT_TRUE(graph.ParseFromString(graph_def_));
    const auto nodes = static_cast<size_t>(graph.node_size());
    std::vector<bool> ends(nodes);
    for (uint32_t cuts = 1 + draw(6); cuts > 0; --cuts) ends[draw(nodes)] = true;
    uint32_t segment = draw(static_cast<size_t>(tasks));
    for (size_t i = 0; i < nodes; ++i) {
      if (ends[i]) ++segment;
      if (!placeable_[i]) continue;
      uint32_t task = segment % static_cast<uint32_t>(tasks);
      if (seed % 3 == 1 && draw(8) > 0) continue;
      if (seed % 3 > 0) task = draw(static_cast<size_t>(tasks));
      graph.mutable_node(static_cast<int>(i))->set_device(fmt::format("/job:worker/task:{}", task));
    }
    return ParseGraph(graph.SerializeAsString());
  }

  // The loss of each step, then the variables.
  StatusOr<std::vector<std::string>> Train(Session& session, int steps) const {
    std::vector<std::string> bits;
    RIVULET_RETURN_IF_ERROR(session.Run({}, {}, {init_}).status());
    for (int i = 0; i < steps; ++i) {
      Tensor image(DType::kFloat32, {kCutBatch, 28, 28, 1}), label(DType::kInt64, {kCutBatch});
      uint32_t index = 0;
      const PhiloxKey key{{static_cast<uint32_t>(i), 49}};
      for (float& pixel : image.flat<float>())
        pixel = static_cast<float>(Philox4x32(key, {index++, 0, 0, 0})[0] % 256) / 255.0f;
      for (int64_t& value : label.flat<int64_t>()) value = Philox4x32(key, {index++, 0, 0, 0})[0] % 10;
      RIVULET_ASSIGN_OR_RETURN(const auto values, session.Run({{image_, image}, {label_, label}}, {loss_}, {step_}));
      bits.push_back(BitsOf(values[0]));
    }
    RIVULET_ASSIGN_OR_RETURN(const auto values, session.Run({}, reads_));
    for (const Tensor& value : values) bits.push_back(BitsOf(value));
    return bits;
  }

 private:
  std::string graph_def_, init_, image_, label_, loss_, step_;
  std::vector<std::string> reads_;
  std::vector<bool> placeable_;  // by node
};

TEST(RandomCutsTest, MnistCnnOverTwoAndThreeProcesses_TrainsToTheBitsOfOne) {
  int first = 0, count = 3, steps = 5;
  if (const char* const cuts = std::getenv("RIVULET_CUTS")) {
    ASSERT_EQ(std::sscanf(cuts, "%d:%d", &first, &count), 2);
  }
  if (const char* const asked = std::getenv("RIVULET_CUT_STEPS")) steps = std::atoi(asked);
  CutTraining training;
  ASSERT_OK(training.Build());
  ASSERT_OK_AND_ASSIGN(Graph whole, training.Whole());
  ASSERT_OK_AND_ASSIGN(const auto one, Session::Create(std::move(whole), {.seed = kCutSeed}));
  ASSERT_OK_AND_ASSIGN(const auto expected, training.Train(*one, steps));
  ASSERT_NE(expected[0], expected[1]);  // it learns something
  Processes two(2), three(3);
  for (int cut = first; cut < first + count; ++cut) {
    SCOPED_TRACE(fmt::format("cut {}", cut));
    const int tasks = 2 + cut % 2;
    ASSERT_OK_AND_ASSIGN(Graph graph, training.Cut(static_cast<uint32_t>(cut), tasks));
    SessionConfig config;
    config.seed = kCutSeed;
    config.isolate_session_state = true;
    ASSERT_OK_AND_ASSIGN(const auto several, (tasks == 2 ? two : three).Open(std::move(graph), config));
    ASSERT_OK_AND_ASSIGN(const auto got, training.Train(*several, steps));
    ASSERT_TRUE(got == expected) << "over " << tasks << " processes";
  }
}

}  // namespace
}  // namespace rivulet
