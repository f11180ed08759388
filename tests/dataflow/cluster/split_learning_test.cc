// Split learning: a model cut between the owner of features and the owner of labels. It trains to the bits of the model
// in one process, and no other tensors leave a task than its owner lists.
#include "dataflow/cluster/task_server.h"
#include "dataflow/input/bound_data.h"
#include "dataflow/session/session.h"
#include "engine/base/philox.h"
#include "engine/data/example.h"
#include "engine/gradients/gradients.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "proto/graph/run_metadata.pb.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/random_graph.h"
#include "tests/engine/data/data_test.h"
#include "tests/engine/input/datasets.h"

namespace rivulet {
namespace {

using ::rivulet::testing::BitsOf;
using ::rivulet::testing::Datasets;
using ::rivulet::testing::Elements;
using ::rivulet::testing::ReservedPorts;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::With;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGuest[] = "/job:guest/replica:0/task:0", kHost[] = "/job:host/replica:0/task:0";
constexpr int64_t kRecords = 200, kSplitBatch = 16, kSplitFeatures = 6, kSplitClasses = 3;

// The guest has the labels and the top of the model, the host the features and its bottom. Both read their records in
// one order, by the seeds of the shuffle.
struct SplitModel {
  explicit SplitModel(bool cut) : cut(cut) {
    const Scope guest = On("guest"), host = On("host");
    const Output x = Records(host, "features", "x", DType::kFloat32, Shape{kSplitFeatures});
    const Output hidden =
        host.Op("BiasAdd", {host.Op("MatMul", {x, Variable(host, "bottom", {kSplitFeatures, 8}, GlorotUniform())}),
                            Variable(host, "bottom_bias", {8}, Zeros())});
    const Output activations = host.Op("Relu", {hidden}, {}, "activations");
    const Output label = Records(guest, "labels", "label", DType::kInt64, Shape{});
    const Output logits =
        guest.Op("MatMul", {activations, Variable(guest, "top", {8, kSplitClasses}, GlorotUniform())});
    const Output losses = guest.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
    const Output loss = guest.Op("Mean", {losses, guest.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
    EXPECT_OK(scope.status());
    std::vector<Output> xs;
    for (const char* name : {"bottom", "bottom_bias", "top"}) xs.push_back(graph.Find(name)->output());
    xs.push_back(activations);
    auto gradients = ComputeGradients(graph, loss, xs);
    EXPECT_OK(gradients);
    gradient = gradients->back().name();
    const auto step =
        ApplyGradients(scope, {.kind = "momentum", .learning_rate = 0.1}, {xs.data(), 3}, {gradients->data(), 3});
    EXPECT_OK(step);
    train = (*step)->name();
  }

  Scope On(const std::string& job) const { return cut ? scope.WithDevice("/job:" + job) : scope; }
  // The records of a data set by batches; the target "<name>/start" begins it.
  Output Records(const Scope& here, const std::string& name, const std::string& feature, DType dtype,
                 const Shape& one) {
    const Datasets d{here};
    const Shape batched = [&] {
      std::vector<int64_t> dims = {kSplitBatch};
      dims.insert(dims.end(), one.dims().begin(), one.dims().end());
      return Shape(dims);
    }();
    const AttrMap texts = Elements({DType::kString}, {Shape{}}), batches = Elements({DType::kString}, {{kSplitBatch}}),
                  parsed = Elements({dtype}, {batched});
    const Output records = here.Op("BoundDataset", {}, With(texts, {{"name", name}}), name);
    const Output shuffled = d.Shuffle(d.Count("RepeatDataset", records, -1, texts), kRecords, 3, 4, true, texts);
    const Output examples =
        here.Op("ParseExampleDatasetV2",
                {d.Batch(shuffled, kSplitBatch, true, batches), d.Int(1), here.Const(Tensor(dtype, Shape{0}))},
                With(parsed, {{"dense_keys", std::vector<std::string>{feature}},
                              {"Tdense", std::vector{dtype}},
                              {"dense_shapes", std::vector{one}},
                              {"sparse_keys", std::vector<std::string>{}},
                              {"sparse_types", std::vector<DType>{}},
                              {"ragged_keys", std::vector<std::string>{}},
                              {"ragged_value_types", std::vector<DType>{}},
                              {"ragged_split_types", std::vector<DType>{}}}));
    const Output iterator = here.Op("IteratorV2", {}, parsed, name + "/iterator");
    here.AddNode("MakeIterator", {examples, iterator}, {}, name + "/start");
    return here.Op("IteratorGetNext", {iterator}, parsed, name + "/next");
  }

  // The losses of `steps` steps.
  StatusOr<std::vector<std::string>> Train(Session& session, int steps) const {
    RIVULET_RETURN_IF_ERROR(session.Run({}, {}, {"init", "features/start", "labels/start"}).status());
    std::vector<std::string> losses;
    for (int i = 0; i < steps; ++i) {
      RIVULET_ASSIGN_OR_RETURN(const auto values, session.Run({}, {"loss"}, {train}));
      losses.push_back(BitsOf(values[0]));
    }
    return losses;
  }

  const bool cut;
  Graph graph;
  const Scope scope{graph};
  std::string train, gradient;  // "gradient": of the activations
};

class SplitLearning : public DataTest {
 protected:
  void SetUp() override {
    std::vector<std::string> features, labels;
    for (uint32_t i = 0; i < kRecords; ++i) {
      std::vector<float> x;
      for (uint32_t j = 0; j < kSplitFeatures; ++j)
        x.push_back(static_cast<float>(Philox4x32({{i, 50}}, {j, 0, 0, 0})[0] % 1000) / 500.0f - 1.0f);
      const int64_t label = std::max_element(x.begin(), x.begin() + kSplitClasses) - x.begin();
      features.push_back(ExampleBuilder().Floats("x", x).Serialize());
      labels.push_back(ExampleBuilder().Int64("label", label).Serialize());
    }
    for (const auto& [name, records] : {std::pair("features", &features), std::pair("labels", &labels)}) {
      ASSERT_OK_AND_ASSIGN(files_[name], Dataset::Open({Write(std::string(name) + ".tfrecord", Frames(*records))}));
    }
  }
  // A task with its owner's data. `send`: a file of --send, or none.
  std::unique_ptr<TaskServer> Serve(const std::string& job, const std::string& data, std::optional<std::string> send,
                                    size_t memory = 0) {
    TaskServerOptions options;
    auto cluster = ClusterSpec::Parse(fmt::format("guest={};host={}", Address(0), Address(1)));
    EXPECT_OK(cluster);
    options.cluster = *std::move(cluster);
    options.job = job;
    options.credentials = InsecureCredentials(false);
    options.heartbeat = options.control_timeout = std::chrono::minutes(5);  // a busy machine is no task that is gone
    options.worker.data = {{data, {files_.at(data)}}};
    options.worker.memory_limit_bytes = memory;
    options.worker.withheld = [this](const std::string& message) {
      const std::lock_guard<std::mutex> lock(mutex_);
      withheld_ += message + "\n";
    };
    if (send) {
      auto listed = ParseSendList(*send);
      EXPECT_OK(listed);
      options.worker.send = *std::move(listed);
    }
    auto server = TaskServer::Start(std::move(options));
    EXPECT_OK(server);
    return *std::move(server);
  }
  std::string Address(size_t task) const { return fmt::format("127.0.0.1:{}", reserved_->ports()[task]); }
  StatusOr<std::unique_ptr<Session>> Open(const Graph& graph, size_t master = 0, SessionConfig config = {}) const {
    config.seed = kSplitSeed;
    config.target = "grpc://" + Address(master);
    return Session::Create(graph.Clone(), config);
  }
  static Tensor ValueAt(const TaskServer& server, const Graph& graph, const std::string& variable) {
    const auto session = Session::Create(graph.Clone(), {.shared_state = server.worker().resources()});
    EXPECT_OK(session);
    const auto value = (*session)->GetVariable(variable);
    EXPECT_OK(value);
    return *value;
  }

  static constexpr uint64_t kSplitSeed = 5;
  std::unique_ptr<const ReservedPorts> reserved_ = std::make_unique<const ReservedPorts>(2);
  std::map<std::string, std::shared_ptr<const Dataset>> files_;
  std::mutex mutex_;
  std::string withheld_;
};

TEST_F(SplitLearning, CutModel_AfterAHundredSteps_HasTheBitsOfTheJoinedOne) {
  const SplitModel joined(false), cut(true);
  ASSERT_OK_AND_ASSIGN(const auto one, Session::Create(joined.graph.Clone(), {.seed = kSplitSeed}));
  for (const char* name : {"features", "labels"}) ASSERT_OK(BindData(*one->resources(), name, {files_.at(name)}));
  ASSERT_OK_AND_ASSIGN(const auto expected, joined.Train(*one, 100));

  const auto guest = Serve("guest", "labels", "loss\n" + cut.gradient), host = Serve("host", "features", "activations");
  ASSERT_OK_AND_ASSIGN(const auto two, Open(cut.graph));
  ASSERT_OK_AND_ASSIGN(const auto got, cut.Train(*two, 100));
  EXPECT_TRUE(got == expected);
  for (const auto& [server, variable] :
       {std::pair(&guest, "top"), std::pair(&guest, "top/Momentum"), std::pair(&host, "bottom"),
        std::pair(&host, "bottom/Momentum"), std::pair(&host, "bottom_bias")}) {
    ASSERT_OK_AND_ASSIGN(const Tensor value, one->GetVariable(variable));
    EXPECT_EQ(BitsOf(ValueAt(**server, cut.graph, variable)), BitsOf(value)) << variable;
  }
  // The batches are aligned: labels follow from features, and are learnt.
  const auto loss = [&](size_t step) {
    float value = 0;
    std::memcpy(&value, expected[step].data() + expected[step].size() - sizeof value, sizeof value);
    return value;
  };
  EXPECT_LT(loss(99), 0.6f * loss(0));
}

TEST_F(SplitLearning, UnlistedEdge_IsRefusedByNameBeforeAnythingRuns) {
  const SplitModel cut(true);
  for (const std::optional<std::string>& send : {std::optional<std::string>(), std::optional<std::string>("hidden")}) {
    reserved_ = std::make_unique<const ReservedPorts>(2);  // gRPC closes a port some time after its server's end
    const auto guest = Serve("guest", "labels", "loss\n" + cut.gradient), host = Serve("host", "features", send);
    ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph));
    EXPECT_THAT(cut.Train(*session, 1),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("'activations' to '/job:guest/replica:0/task:0' from "
                                         "'/job:host/replica:0/task:0', whose owner does not list that"),
                               Not(HasSubstr("features")))));
    // The first run has begun the training; the refused one has moved nothing.
    EXPECT_EQ(BitsOf(ValueAt(*guest, cut.graph, "top/Momentum")), std::string(8 * kSplitClasses * sizeof(float), '\0'));
    // Nor does a client get what is not listed, whichever task is its master.
    for (const size_t master : {0u, 1u}) {
      ASSERT_OK_AND_ASSIGN(const auto client, Open(cut.graph, master));
      for (const char* fetch : {"features/next", "bottom/Read"}) {
        EXPECT_THAT(client->Run({}, {fetch}), StatusIs(absl::StatusCode::kPermissionDenied,
                                                       HasSubstr(fmt::format("'{}' to its session's client", fetch))));
      }
    }
  }
}

TEST_F(SplitLearning, GradientThatTheGuestDoesNotList_IsRefused) {
  const SplitModel cut(true);
  const auto guest = Serve("guest", "labels", "loss"), host = Serve("host", "features", "activations");
  ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph));
  EXPECT_THAT(cut.Train(*session, 1),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr(fmt::format("'{}' to '{}' from '{}'", cut.gradient, kHost, kGuest))));
}

TEST_F(SplitLearning, ErrorThatQuotesData_StaysWithItsOwner) {
  SplitModel cut(true);
  const Scope host = cut.On("host");
  const Output x = cut.graph.Find("features/next")->output();
  host.AddNode("Assert", {host.Const(Tensor::Scalar(false)), x},
               {{"T", std::vector{DType::kFloat32}}, {"summarize", int64_t{3}}}, "assert");
  ASSERT_OK(host.status());
  const auto guest = Serve("guest", "labels", ""), owner = Serve("host", "features", "");
  ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph));
  ASSERT_OK(session->Run({}, {}, {"features/start"}).status());
  EXPECT_THAT(session->Run({}, {}, {"assert"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the step failed at '/job:host/replica:0/task:0', which keeps its message"),
                             Not(HasSubstr("assertion")), Not(HasSubstr("0.")))));
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_THAT(withheld_, AllOf(HasSubstr("assertion failed"), HasSubstr("0.")));
}

TEST_F(SplitLearning, AllowListAndMemoryBudget_StayInForce) {
  SplitModel cut(true);
  const auto guest = Serve("guest", "labels", ""), host = Serve("host", "features", "", /*memory=*/4096);
  Graph prints;
  const Scope printing(prints);
  const Output one = printing.WithDevice("/job:host").Const(1.0f);
  printing.WithDevice("/job:host").AddNode("Print", {one, one}, {{"message", std::string("hello")}}, "print");
  ASSERT_OK(printing.status());
  EXPECT_THAT(Open(prints), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'print'")));
  // The shuffle would hold 200 records of 40 bytes and more.
  ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph));
  ASSERT_OK(session->Run({}, {}, {"features/start", "labels/start"}).status());
  EXPECT_THAT(session->Run({}, {}, {"features/next"}), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(session->Run({}, {}, {"labels/next"}).status());
}

TEST_F(SplitLearning, BoundData_OutliveAResetAndAreThereForIsolatedSessions) {
  const SplitModel cut(true);
  const auto guest = Serve("guest", "labels", ""), host = Serve("host", "features", "");
  for (const bool isolated : {false, true}) {
    SessionConfig config;
    config.isolate_session_state = isolated;
    ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph, 0, config));
    ASSERT_OK(session->Run({}, {}, {"features/start", "labels/start"}).status());
    ASSERT_OK(session->Run({}, {}, {"features/next", "labels/next"}).status());
    const std::vector<std::string> all = {"", std::string(kBoundDataContainer)};
    session->Reset(all);
  }
  ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph));
  EXPECT_OK(session->Run({}, {}, {"features/start", "labels/start"}).status());
}

TEST_F(SplitLearning, TaskWithAList_GivesNoTrace) {
  const SplitModel cut(true);
  const auto guest = Serve("guest", "labels", "loss\n" + cut.gradient), host = Serve("host", "features", "activations");
  ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph));
  ASSERT_OK(cut.Train(*session, 1).status());
  proto::RunMetadata metadata;
  RunOptions options;
  options.trace = options.output_partition_graphs = true;
  ASSERT_OK(session->RunWith(options, {}, {"loss"}, {cut.train}, &metadata));
  EXPECT_EQ(metadata.step_stats().dev_stats_size(), 0);
  EXPECT_EQ(metadata.partition_graphs_size(), 0);
}

TEST_F(SplitLearning, RoundedTransfers_NeedNoOtherList) {
  const SplitModel cut(true);
  const auto guest = Serve("guest", "labels", "loss\n" + cut.gradient), host = Serve("host", "features", "activations");
  SessionConfig config;
  config.placement.emplace().enable_bfloat16_sendrecv = true;
  ASSERT_OK_AND_ASSIGN(const auto session, Open(cut.graph, 0, config));
  EXPECT_OK(cut.Train(*session, 2));
}

}  // namespace
}  // namespace rivulet
