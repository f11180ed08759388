// TensorFlow's options: each field has a rule, each honoured one a test here (or in another folder) that sees its
// effect.
#include <google/protobuf/descriptor.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "dataflow/session/session_options.h"
#include "dataflow/session/thread_pool.h"
#include "engine/graph/scope.h"
#include "engine/passes/pass.h"
#include "engine/variables/variables.h"
#include "proto/graph/config.pb.h"
#include "proto/graph/run_metadata.pb.h"
#include "tests/dataflow/session/gates.h"
#include "tests/dataflow/session/options_page.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AwaitGate;
using ::rivulet::testing::GateThread;
using ::rivulet::testing::OpenGate;
using ::rivulet::testing::OptionsPage;
using ::rivulet::testing::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// x → relu(x · w) with a gate beside it, whose op tells on which thread it was started.
class SessionOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override { OpenGate(GateName()); }
  std::string GateName() const { return ::testing::UnitTest::GetInstance()->current_test_info()->name(); }

  Graph Build(const std::string& gate) const {
    Graph graph;
    const Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
    const Output w = Variable(scope, "w", Shape{}, Constant(2));
    const Output product = scope.Op("Mul", {x, w}, {}, "product");
    scope.Op("Relu", {product}, {}, "y");
    const Output one = scope.Const(Tensor::Scalar(1.0f), "one");
    scope.Op("Neg", {scope.Op("TestGate", {one}, {{"gate", gate}}, "gate")}, {}, "behind");
    scope.Op("Relu", {scope.Op("AddV2", {one, one}, {}, "two")}, {}, "known");
    EXPECT_OK(scope.status());
    return graph;
  }
  void Make(const proto::ConfigProto& options, std::shared_ptr<ResourceManager> state = nullptr) {
    ASSERT_OK_AND_ASSIGN(const SessionConfig config, SessionConfigFrom(options, std::move(state)));
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(Build(GateName()), config));
    ASSERT_OK(session_->Run({}, {}, {"init"}));
  }
  Session::Feeds X() const { return {{"x", Tensor::Of<float>(Shape{2}, {3, -1})}}; }
  StatusOr<std::vector<Tensor>> Run(const proto::RunOptions& options, const std::string& fetch,
                                    proto::RunMetadata* metadata = nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const RunOptions run, RunOptionsFrom(options));
    return session_->RunWith(run, X(), {fetch}, {}, metadata);
  }
  std::unique_ptr<Session> session_;
};

// ---- the table

void CollectFields(const google::protobuf::Descriptor& message, std::set<std::string>& fields) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    const std::string name = field.full_name().substr(std::string("rivulet.proto.").size());
    fields.insert(name);
    for (const OptionRule& rule : OptionRules())
      if (rule.field == name && rule.kind == OptionRule::Kind::kFields && field.message_type() != nullptr)
        CollectFields(*field.message_type(), fields);
  }
}

TEST(SessionOptionsTableTest, EveryFieldHasOneRule_AndEveryRuleAField) {
  std::set<std::string> fields;
  CollectFields(*proto::ConfigProto::descriptor(), fields);
  CollectFields(*proto::RunOptions::descriptor(), fields);
  std::map<std::string, int> rules;
  for (const OptionRule& rule : OptionRules()) ++rules[std::string(rule.field)];
  for (const std::string& field : fields) EXPECT_EQ(rules[field], 1) << field;
  for (const auto& [field, count] : rules) EXPECT_TRUE(fields.contains(field)) << field << " is no field";
}

TEST(SessionOptionsTableTest, EveryHonouredFieldNamesATestThatExists) {
  std::string sources;
  for (const char* folder : {RIVULET_SOURCE_DIR "/tests/dataflow", RIVULET_SOURCE_DIR "/tests/engine"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".cc") sources += ReadFile(entry.path());
  for (const OptionRule& rule : OptionRules()) {
    if (rule.kind != OptionRule::Kind::kHonoured) {
      EXPECT_TRUE(rule.test.empty()) << rule.field;
      continue;
    }
    const size_t dot = rule.test.find('.');
    ASSERT_NE(dot, std::string_view::npos) << rule.field;
    const std::string of = fmt::format("({}, {})", rule.test.substr(0, dot), rule.test.substr(dot + 1));
    EXPECT_TRUE(sources.find("TEST" + of) != std::string::npos || sources.find("TEST_F" + of) != std::string::npos)
        << rule.field << " names " << rule.test;
  }
}

TEST(SessionOptionsTableTest, PageIsAsTheRulesSay) {
  const std::filesystem::path page = RIVULET_SOURCE_DIR "/docs/reference/session_options.md";
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) std::ofstream(page) << OptionsPage();
  EXPECT_EQ(ReadFile(page), OptionsPage()) << "run this test with RIVULET_UPDATE_DOCS=1";
}

// Sets a field to something that is not its default.
void SetField(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
  using Field = google::protobuf::FieldDescriptor;
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    switch (field.cpp_type()) {
      case Field::CPPTYPE_MESSAGE:
        reflection.AddMessage(&message, &field);
        return;
      case Field::CPPTYPE_STRING:
        reflection.AddString(&message, &field, "x");
        return;
      default:
        FAIL() << field.full_name();
    }
  }
  switch (field.cpp_type()) {
    case Field::CPPTYPE_MESSAGE:
      reflection.MutableMessage(&message, &field);
      return;
    case Field::CPPTYPE_STRING:
      reflection.SetString(&message, &field, "x");
      return;
    case Field::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, true);
      return;
    case Field::CPPTYPE_INT32:
      reflection.SetInt32(&message, &field, 7);
      return;
    case Field::CPPTYPE_INT64:
      reflection.SetInt64(&message, &field, 7);
      return;
    case Field::CPPTYPE_FLOAT:
      reflection.SetFloat(&message, &field, 0.5f);
      return;
    case Field::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, &field, 0.5);
      return;
    case Field::CPPTYPE_ENUM:
      reflection.SetEnumValue(&message, &field, field.enum_type()->value(1)->number() == 0 ? 2 : 1);
      return;
    default:
      FAIL() << field.full_name();
  }
}

// Every refused field of `message`, which lies at `path` in `whole`.
template <typename Whole>
int RefuseEach(const std::function<google::protobuf::Message*(Whole&)>& at, const google::protobuf::Descriptor& type,
               const std::string& path, const std::function<Status(const Whole&)>& read) {
  int refused = 0;
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const std::string name = path.empty() ? field.name() : path + "." + field.name();
    for (const OptionRule& rule : OptionRules()) {
      if (rule.field != field.full_name().substr(std::string("rivulet.proto.").size())) continue;
      if (rule.kind == OptionRule::Kind::kRefused) {
        Whole whole;
        SetField(*at(whole), field);
        EXPECT_THAT(read(whole),
                    StatusIs(absl::StatusCode::kUnimplemented, fmt::format("{} is refused: {}", name, rule.text)));
        ++refused;
      } else if (rule.kind == OptionRule::Kind::kFields && !field.is_repeated()) {
        refused += RefuseEach<Whole>(
            [&at, &field](Whole& whole) {
              google::protobuf::Message* message = at(whole);
              return message->GetReflection()->MutableMessage(message, &field);
            },
            *field.message_type(), name, read);
      }
    }
  }
  return refused;
}

TEST(SessionOptionsTableTest, EveryRefusedField_IsRefusedByName) {
  const int config = RefuseEach<proto::ConfigProto>(
      [](proto::ConfigProto& whole) { return &whole; }, *proto::ConfigProto::descriptor(), "",
      [](const proto::ConfigProto& whole) { return SessionConfigFrom(whole).status(); });
  EXPECT_GT(config, 80);
  const int run =
      RefuseEach<proto::RunOptions>([](proto::RunOptions& whole) { return &whole; }, *proto::RunOptions::descriptor(),
                                    "", [](const proto::RunOptions& whole) { return RunOptionsFrom(whole).status(); });
  EXPECT_EQ(run, 2);
}

TEST(SessionOptionsTableTest, DefaultsAndHarmlessValues_Pass) {
  EXPECT_OK(SessionConfigFrom({}));
  EXPECT_OK(RunOptionsFrom({}));
  proto::ConfigProto options;
  options.set_intra_op_parallelism_threads(1);
  options.mutable_graph_options()->mutable_optimizer_options()->set_global_jit_level(proto::OptimizerOptions::OFF);
  options.mutable_gpu_options()->mutable_experimental();  // there, but empty
  EXPECT_OK(SessionConfigFrom(options));
}

TEST(SessionOptionsTableTest, ValuesThatMakeNoSense_AreRefused) {
  proto::ConfigProto options;
  options.set_operation_timeout_in_ms(-1);
  EXPECT_THAT(SessionConfigFrom(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is -1")));
  options.Clear();
  options.mutable_experimental()->set_executor_type("FAST");
  EXPECT_THAT(SessionConfigFrom(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'FAST'")));
  options.Clear();
  options.add_session_inter_op_thread_pool()->set_num_threads(-2);
  EXPECT_THAT(SessionConfigFrom(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-2 threads")));
  options.Clear();
  options.mutable_graph_options()->set_timeline_step(-1);
  EXPECT_THAT(SessionConfigFrom(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("timeline_step")));
  proto::RunOptions run;
  run.set_trace_level(proto::RunOptions::HARDWARE_TRACE);
  EXPECT_THAT(RunOptionsFrom(run), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("HARDWARE_TRACE")));
}

// ---- threads

TEST_F(SessionOptionsTest, InterOpThreads_RunThePrograms) {
  proto::ConfigProto options;
  options.set_inter_op_parallelism_threads(1);
  Make(options);
  ASSERT_OK(Run({}, "behind"));
  EXPECT_EQ(GateThread(GateName()), "inter_op/1");
  options.set_inter_op_parallelism_threads(-1);
  Make(options);
  ASSERT_OK(Run({}, "behind"));
  EXPECT_EQ(GateThread(GateName()), "");  // the calling thread's
}

TEST_F(SessionOptionsTest, PerSessionThreads_AreNotShared) {
  proto::ConfigProto options;
  options.set_inter_op_parallelism_threads(1);
  options.set_use_per_session_threads(true);
  Make(options);
  ASSERT_OK(Run({}, "behind"));
  EXPECT_EQ(GateThread(GateName()), "inter_op 0");
}

TEST_F(SessionOptionsTest, InterOpPools_AreChosenByTheRun) {
  proto::ConfigProto options;
  options.add_session_inter_op_thread_pool()->set_num_threads(1);
  options.mutable_session_inter_op_thread_pool(0)->set_global_name("slow");
  options.add_session_inter_op_thread_pool()->set_global_name("fast");
  options.mutable_session_inter_op_thread_pool(1)->set_num_threads(2);
  Make(options);
  proto::RunOptions run;
  for (const auto& [pool, name] : {std::pair(0, "slow"), {1, "fast"}, {-1, ""}}) {
    run.set_inter_op_thread_pool(pool);
    ASSERT_OK(Run(run, "behind"));
    EXPECT_EQ(GateThread(GateName()), name);
    ASSERT_OK(Run(run, "y"));  // a run of one program too
  }
  run.set_inter_op_thread_pool(2);
  EXPECT_THAT(Run(run, "y"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there is no inter-op pool 2")));
}

TEST_F(SessionOptionsTest, GlobalPool_IsOneForAllSessions) {
  ASSERT_OK_AND_ASSIGN(const auto pool, ThreadPool::Shared("the one", 3));
  proto::ConfigProto options;
  options.add_session_inter_op_thread_pool()->set_global_name("the one");
  options.mutable_session_inter_op_thread_pool(0)->set_num_threads(2);
  ASSERT_OK_AND_ASSIGN(const SessionConfig config, SessionConfigFrom(options));
  ASSERT_OK_AND_ASSIGN(session_, Session::Create(Build(GateName()), config));
  EXPECT_THAT(session_->Run({}, {}, {"init"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "the thread pool 'the one' has 3 threads already, and 2 are asked for"));
}

TEST_F(SessionOptionsTest, SingleThreadedExecutor_StaysOnTheCallingThread) {
  proto::ConfigProto options;
  options.mutable_experimental()->set_executor_type("SINGLE_THREADED_EXECUTOR");
  Make(options);
  ASSERT_OK_AND_ASSIGN(const auto values, Run({}, "behind"));
  EXPECT_EQ(values[0].flat<float>()[0], -1.0f);
  EXPECT_EQ(GateThread(GateName()), "");
  options.mutable_experimental()->set_executor_type("DEFAULT");
  Make(options);
  ASSERT_OK(Run({}, "behind"));
  EXPECT_EQ(GateThread(GateName()), "inter_op/0");
}

// That the pool takes what waits by priority is ThreadPoolTest's.
TEST_F(SessionOptionsTest, RunHandlerPool_RunsByPriority) {
  Make({});
  proto::RunOptions run;
  run.mutable_experimental()->set_use_run_handler_pool(true);
  ASSERT_OK(Run(run, "behind"));
  EXPECT_EQ(GateThread(GateName()), "run_handler");
  run.mutable_experimental()->mutable_run_handler_pool_options()->set_priority(5);
  ASSERT_OK_AND_ASSIGN(const RunOptions options, RunOptionsFrom(run));
  EXPECT_EQ(options.priority, 5);
  run.mutable_experimental()->set_use_run_handler_pool(false);
  EXPECT_THAT(RunOptionsFrom(run), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("priority means nothing")));
}

// ---- time

TEST_F(SessionOptionsTest, OperationTimeout_CancelsRuns) {
  proto::ConfigProto options;
  options.set_operation_timeout_in_ms(3);
  ASSERT_OK_AND_ASSIGN(const SessionConfig config, SessionConfigFrom(options));
  ASSERT_OK_AND_ASSIGN(session_, Session::Create(Build(GateName() + " that stays closed"), config));
  EXPECT_THAT(Run({}, "behind"), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("longer than its 3 ms")));
}

TEST_F(SessionOptionsTest, Timeout_CancelsTheRun) {
  ASSERT_OK_AND_ASSIGN(session_, Session::Create(Build(GateName() + " that stays closed")));
  proto::RunOptions run;
  run.set_timeout_in_ms(2);
  EXPECT_THAT(Run(run, "behind"), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("longer than its 2 ms")));
  run.set_timeout_in_ms(3'600'000);
  EXPECT_OK(session_->Run({}, {}, {"init"}));
  EXPECT_OK(Run(run, "y"));
}

// ---- state

TEST_F(SessionOptionsTest, IsolateSessionState_HidesVariables) {
  const auto state = std::make_shared<ResourceManager>();
  proto::ConfigProto options;
  Make(options, state);
  ASSERT_OK(session_->SetVariable("w", Tensor::Scalar(9.0f)));
  ASSERT_OK_AND_ASSIGN(const SessionConfig shared, SessionConfigFrom(options, state));
  ASSERT_OK_AND_ASSIGN(const auto sees, Session::Create(Build(GateName()), shared));
  EXPECT_EQ(sees->GetVariable("w")->flat<float>()[0], 9.0f);
  options.set_isolate_session_state(true);
  ASSERT_OK_AND_ASSIGN(const SessionConfig isolated, SessionConfigFrom(options, state));
  ASSERT_OK_AND_ASSIGN(const auto alone, Session::Create(Build(GateName()), isolated));
  EXPECT_THAT(alone->GetVariable("w"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no value yet")));
}

TEST_F(SessionOptionsTest, StaticGraph_CannotBeExtended) {
  proto::ConfigProto options;
  options.mutable_experimental()->set_optimize_for_static_graph(true);
  Make(options);
  EXPECT_THAT(session_->Extend(Graph()), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("static")));
  EXPECT_THAT(session_->ExtendDef(""), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("static")));
}

TEST_F(SessionOptionsTest, SessionMetadata_ComesBack) {
  proto::ConfigProto options;
  options.mutable_experimental()->mutable_session_metadata()->set_name("served");
  options.mutable_experimental()->mutable_session_metadata()->set_version(3);
  Make(options);
  proto::RunMetadata metadata;
  ASSERT_OK(Run({}, "y", &metadata));
  EXPECT_EQ(metadata.session_metadata().name(), "served");
  EXPECT_EQ(metadata.session_metadata().version(), 3);
}

// ---- passes

std::set<std::string> OpsOf(const proto::RunMetadata& metadata) {
  std::set<std::string> ops;
  for (const proto::GraphDef& graph : metadata.partition_graphs())
    for (const proto::NodeDef& node : graph.node()) ops.insert(node.op());
  return ops;
}

TEST_F(SessionOptionsTest, OptLevelZero_RunsOnlyThePassesAskedFor) {
  proto::RunOptions run;
  run.set_output_partition_graphs(true);
  proto::RunMetadata metadata;
  proto::ConfigProto options;
  Make(options);
  ASSERT_OK(Run(run, "known", &metadata));
  EXPECT_EQ(OpsOf(metadata).count("Relu"), 0u);  // its value is known before the run
  proto::OptimizerOptions& optimizer = *options.mutable_graph_options()->mutable_optimizer_options();
  optimizer.set_opt_level(proto::OptimizerOptions::L0);
  Make(options);
  ASSERT_OK(Run(run, "known", &metadata));
  EXPECT_EQ(OpsOf(metadata).count("Relu"), 1u);
  ASSERT_OK_AND_ASSIGN(SessionConfig config, SessionConfigFrom(options));
  EXPECT_FALSE(config.passes.Runs("common_subexpressions"));
  EXPECT_FALSE(config.passes.Runs("fuse_products"));
  optimizer.set_do_constant_folding(true);
  optimizer.set_do_common_subexpression_elimination(true);
  Make(options);
  ASSERT_OK(Run(run, "known", &metadata));
  EXPECT_EQ(OpsOf(metadata).count("Relu"), 0u);
  ASSERT_OK_AND_ASSIGN(config, SessionConfigFrom(options));
  EXPECT_TRUE(config.passes.Runs("common_subexpressions"));
  EXPECT_FALSE(config.passes.Runs("fuse_products"));
}

TEST_F(SessionOptionsTest, MaxFoldedConstant_LimitsFolding) {
  Graph graph;
  const Scope scope(graph);
  const Output dims = scope.Const(Tensor::Of<int32_t>(Shape{1}, {1024}));
  scope.Op("Relu", {scope.Op("Fill", {dims, scope.Const(Tensor::Scalar(1.0f))}, {}, "filled")}, {}, "large");
  ASSERT_OK(scope.status());
  proto::RunOptions run;
  run.set_output_partition_graphs(true);
  ASSERT_OK_AND_ASSIGN(const RunOptions run_options, RunOptionsFrom(run));
  for (const auto& [bytes, folded] : {std::pair(4096, true), {1024, false}}) {
    proto::ConfigProto options;
    options.mutable_graph_options()->mutable_optimizer_options()->set_max_folded_constant_in_bytes(bytes);
    ASSERT_OK_AND_ASSIGN(const SessionConfig config, SessionConfigFrom(options));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph.Clone(), config));
    proto::RunMetadata metadata;
    ASSERT_OK(session->RunWith(run_options, {}, {"large"}, {}, &metadata));
    EXPECT_EQ(OpsOf(metadata).count("Relu"), folded ? 0u : 1u) << bytes;
  }
}

TEST_F(SessionOptionsTest, RewriteOptions_LeaveOutTheirPasses) {
  using Rewriter = proto::RewriterConfig;
  const auto without = [](const std::function<void(Rewriter&)>& set) {
    proto::ConfigProto options;
    set(*options.mutable_graph_options()->mutable_rewrite_options());
    const StatusOr<SessionConfig> config = SessionConfigFrom(options);
    EXPECT_OK(config);
    return config->passes.without;
  };
  EXPECT_THAT(without([](Rewriter& r) { r.set_layout_optimizer(Rewriter::OFF); }), ElementsAre("layout"));
  EXPECT_THAT(without([](Rewriter& r) { r.set_constant_folding(Rewriter::OFF); }), ElementsAre("fold_constants"));
  EXPECT_THAT(without([](Rewriter& r) { r.set_shape_optimization(Rewriter::OFF); }), ElementsAre("simplify_shapes"));
  EXPECT_THAT(without([](Rewriter& r) { r.set_remapping(Rewriter::OFF); }),
              ElementsAre("fuse_products", "fuse_pooling", "fuse_normalization", "fuse_casts", "fuse_updates",
                          "fuse_elements"));
  EXPECT_THAT(without([](Rewriter& r) { r.set_common_subgraph_elimination(Rewriter::OFF); }),
              ElementsAre("common_subexpressions"));
  EXPECT_THAT(without([](Rewriter& r) { r.set_arithmetic_optimization(Rewriter::OFF); }),
              ElementsAre("simplify_arithmetic", "softmax_loss"));
  EXPECT_THAT(without([](Rewriter& r) { r.set_constant_folding(Rewriter::ON); }), ElementsAre());
  EXPECT_THAT(without([](Rewriter& r) { r.set_disable_meta_optimizer(true); }), Contains("layout"));
  // The names are passes, and leaving one out changes the program: the constant is computed in the run.
  proto::ConfigProto options;
  options.mutable_graph_options()->mutable_rewrite_options()->set_constant_folding(Rewriter::OFF);
  Make(options);
  proto::RunOptions run;
  run.set_output_partition_graphs(true);
  proto::RunMetadata metadata;
  ASSERT_OK(Run(run, "known", &metadata));
  EXPECT_EQ(OpsOf(metadata).count("Relu"), 1u);
  options.mutable_graph_options()->mutable_rewrite_options()->set_constant_folding(Rewriter::AGGRESSIVE);
  EXPECT_THAT(SessionConfigFrom(options),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "graph_options.rewrite_options.constant_folding is refused: write ON or OFF"));
}

// ---- placement

// The square of x on one device, negated on another.
Graph TwoDevices(const std::string& first, const std::string& second) {
  Graph graph;
  Node* x = graph.AddNode({"x", "Placeholder", {}, {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}}}).value();
  NodeSpec square{"square", "Square", {x->output()}};
  square.device = first;
  NodeSpec negated{"negated", "Neg", {graph.AddNode(std::move(square)).value()->output()}};
  negated.device = second;
  EXPECT_OK(graph.AddNode(std::move(negated)));
  return graph;
}

StatusOr<float> RunTwoDevices(const proto::ConfigProto& options, const Graph& graph, float x,
                              proto::RunMetadata* metadata = nullptr) {
  RIVULET_ASSIGN_OR_RETURN(const SessionConfig config, SessionConfigFrom(options));
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(graph.Clone(), config));
  RunOptions run;
  run.trace = true;
  RIVULET_ASSIGN_OR_RETURN(const auto values,
                           session->RunWith(run, {{"x", Tensor::Scalar(x)}}, {"negated"}, {}, metadata));
  return values[0].flat<float>()[0];
}

TEST_F(SessionOptionsTest, DeviceCount_MakesDevices) {
  const Graph graph = TwoDevices("/device:CPU:1", "/device:CPU:0");
  proto::ConfigProto options;
  EXPECT_THAT(RunTwoDevices(options, graph, 3), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("square")));
  (*options.mutable_device_count())["CPU"] = 2;
  (*options.mutable_device_count())["GPU"] = 0;
  proto::RunMetadata metadata;
  EXPECT_EQ(RunTwoDevices(options, graph, 3, &metadata).value(), -9.0f);
  std::set<std::string> devices;
  for (const auto& device : metadata.step_stats().dev_stats()) devices.insert(device.device());
  EXPECT_THAT(devices, ::testing::IsSupersetOf({std::string("/job:localhost/replica:0/task:0/device:CPU:0"),
                                                std::string("/job:localhost/replica:0/task:0/device:CPU:1")}));
  (*options.mutable_device_count())["GPU"] = -1;
  EXPECT_THAT(SessionConfigFrom(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device_count of GPU")));
  (*options.mutable_device_count())["GPU"] = 0;
  (*options.mutable_device_count())["TPU"] = 1;
  EXPECT_THAT(SessionConfigFrom(options), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("device_count of TPU")));
}

TEST_F(SessionOptionsTest, DeviceFilters_TakeDevicesAway) {
  const Graph graph = TwoDevices("/device:CPU:1", "");
  proto::ConfigProto options;
  (*options.mutable_device_count())["CPU"] = 2;
  EXPECT_EQ(RunTwoDevices(options, graph, 3).value(), -9.0f);
  options.add_device_filters("/device:CPU:0");
  EXPECT_THAT(RunTwoDevices(options, graph, 3), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("square")));
}

TEST_F(SessionOptionsTest, SoftPlacement_GivesWay) {
  const Graph graph = TwoDevices("/device:GPU:0", "");
  proto::ConfigProto options;
  EXPECT_THAT(RunTwoDevices(options, graph, 3), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("GPU")));
  options.set_allow_soft_placement(true);
  EXPECT_EQ(RunTwoDevices(options, graph, 3).value(), -9.0f);
}

TEST_F(SessionOptionsTest, LogDevicePlacement_SaysWhereNodesAre) {
  for (const bool log : {false, true}) {
    proto::ConfigProto options;
    options.set_log_device_placement(log);
    std::string lines;
    ASSERT_OK_AND_ASSIGN(const SessionConfig config,
                         SessionConfigFrom(options, nullptr, [&](const std::string& line) { lines += line + "\n"; }));
    ASSERT_OK(Session::Create(TwoDevices("", ""), config));
    EXPECT_EQ(lines.find("square: (Square): /job:localhost/replica:0/task:0/device:CPU:0") != std::string::npos, log)
        << lines;
  }
}

TEST_F(SessionOptionsTest, PlacementPeriod_PlacesAgain) {
  proto::ConfigProto options;
  options.set_log_device_placement(true);
  options.set_placement_period(2);
  int lines = 0;
  ASSERT_OK_AND_ASSIGN(const SessionConfig config,
                       SessionConfigFrom(options, nullptr, [&](const std::string&) { ++lines; }));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(TwoDevices("", ""), config));
  const int once = lines;
  EXPECT_GT(once, 0);
  ASSERT_OK(session->Run({{"x", Tensor::Scalar(2.0f)}}, {"negated"}));
  EXPECT_EQ(lines, once);
  ASSERT_OK(session->Run({{"x", Tensor::Scalar(2.0f)}}, {"negated"}));
  EXPECT_EQ(lines, 2 * once);
}

TEST_F(SessionOptionsTest, PlacePrunedGraph_LooksOnlyAtWhatRuns) {
  Graph graph = TwoDevices("", "");
  NodeSpec nowhere{"nowhere", "Neg", {graph.Find("x")->output()}};
  nowhere.device = "/device:CPU:7";
  ASSERT_OK(graph.AddNode(std::move(nowhere)));
  proto::ConfigProto options;
  EXPECT_THAT(RunTwoDevices(options, graph, 3), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nowhere")));
  options.mutable_graph_options()->set_place_pruned_graph(true);
  EXPECT_EQ(RunTwoDevices(options, graph, 3).value(), -9.0f);
}

TEST_F(SessionOptionsTest, Bfloat16SendRecv_RoundsWhatIsSent) {
  const Graph graph = TwoDevices("/device:CPU:1", "/device:CPU:0");
  proto::ConfigProto options;
  (*options.mutable_device_count())["CPU"] = 2;
  const float x = 1.015625f;  // its square is 1.031494140625, of which bfloat16 keeps 1.03125
  EXPECT_EQ(RunTwoDevices(options, graph, x).value(), -1.031494140625f);
  options.mutable_graph_options()->set_enable_bfloat16_sendrecv(true);
  EXPECT_EQ(RunTwoDevices(options, graph, x).value(), -1.03125f);
}

// ---- what runs tell

TEST_F(SessionOptionsTest, PartitionGraphs_AreWhatRan) {
  Make({});
  proto::RunOptions run;
  proto::RunMetadata metadata;
  ASSERT_OK(Run(run, "behind", &metadata));
  EXPECT_EQ(metadata.partition_graphs_size(), 0);
  run.set_output_partition_graphs(true);
  ASSERT_OK(Run(run, "behind", &metadata));
  EXPECT_EQ(metadata.partition_graphs_size(), 2);  // before and after the gate
  EXPECT_EQ(OpsOf(metadata).count("Neg"), 1u);
  EXPECT_EQ(OpsOf(metadata).count("TestGate"), 0u);
}

TEST_F(SessionOptionsTest, PartitionGraphs_CanBeSwitchedOff) {
  proto::ConfigProto options;
  options.mutable_experimental()->set_disable_output_partition_graphs(true);
  Make(options);
  proto::RunOptions run;
  run.set_output_partition_graphs(true);
  proto::RunMetadata metadata;
  EXPECT_THAT(Run(run, "y", &metadata), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("switch off")));
}

TEST_F(SessionOptionsTest, InferShapes_ArePartOfPartitionGraphs) {
  proto::RunOptions run;
  run.set_output_partition_graphs(true);
  for (const bool infer : {false, true}) {
    proto::ConfigProto options;
    options.mutable_graph_options()->set_infer_shapes(infer);
    Make(options);
    proto::RunMetadata metadata;
    ASSERT_OK(Run(run, "y", &metadata));
    ASSERT_EQ(metadata.partition_graphs_size(), 1);
    for (const proto::NodeDef& node : metadata.partition_graphs(0).node()) {
      if (node.name() != "y") continue;
      ASSERT_EQ(node.attr().count("_output_shapes"), infer ? 1u : 0u);
      if (!infer) continue;
      EXPECT_EQ(node.attr().at("_output_shapes").list().shape(0).dim(0).size(), 2);
    }
  }
}

TEST_F(SessionOptionsTest, TraceLevel_GivesStepStats) {
  Make({});
  proto::RunOptions run;
  proto::RunMetadata metadata;
  ASSERT_OK(Run(run, "y", &metadata));
  EXPECT_FALSE(metadata.has_step_stats());
  for (const auto level : {proto::RunOptions::SOFTWARE_TRACE, proto::RunOptions::FULL_TRACE}) {
    run.set_trace_level(level);
    ASSERT_OK(Run(run, "behind", &metadata));
    ASSERT_EQ(metadata.step_stats().dev_stats_size(), 1);
    std::set<std::string> names;
    for (const proto::NodeExecStats& node : metadata.step_stats().dev_stats(0).node_stats())
      names.insert(node.node_name());
    EXPECT_TRUE(names.contains("behind"));
    EXPECT_TRUE(names.contains("gate"));
  }
}

TEST_F(SessionOptionsTest, TimelineStep_TracesEveryFewRuns) {
  proto::ConfigProto options;
  options.mutable_graph_options()->set_timeline_step(2);
  Make(options);  // its run of `init` is the first
  std::vector<bool> traced;
  for (int i = 0; i < 4; ++i) {
    proto::RunMetadata metadata;
    ASSERT_OK(Run({}, "y", &metadata));
    traced.push_back(metadata.has_step_stats());
  }
  EXPECT_THAT(traced, ElementsAre(true, false, true, false));
}

TEST_F(SessionOptionsTest, CostModel_IsBuiltWhenAskedFor) {
  proto::ConfigProto options;
  options.mutable_graph_options()->set_build_cost_model(2);
  options.mutable_graph_options()->set_build_cost_model_after(3);
  Make(options);  // its run of `init` is the first
  std::vector<bool> built;
  proto::RunMetadata metadata, last;
  for (int i = 0; i < 6; ++i) {
    ASSERT_OK(Run({}, "y", &metadata));
    built.push_back(metadata.has_cost_graph());
    if (metadata.has_cost_graph()) last = metadata;
  }
  EXPECT_THAT(built, ElementsAre(false, false, false, true, false, true));
  std::set<std::string> names;
  for (const proto::CostGraphDef::Node& node : last.cost_graph().node()) {
    names.insert(node.name());
    if (node.name() != "product") continue;
    ASSERT_EQ(node.output_info_size(), 1);
    EXPECT_EQ(node.output_info(0).size(), 8);
    EXPECT_EQ(node.output_info(0).dtype(), proto::DT_FLOAT);
  }
  EXPECT_TRUE(names.contains("product"));
  EXPECT_TRUE(names.contains("_retval_y"));
}

TEST_F(SessionOptionsTest, OutOfMemory_ReportsAllocations) {
  ASSERT_OK_AND_ASSIGN(SessionConfig config, SessionConfigFrom({}));
  config.memory_limit_bytes = 4096;
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
  Variable(scope, "w", Shape{16}, Constant(2));
  const Output squared = scope.Op("Square", {x}, {}, "squared");
  scope.Op("Sum",
           {scope.Op("Mul", {squared, scope.Op("Exp", {squared}, {}, "exp")}, {}, "product"),
            scope.Const(Tensor::Of<int32_t>(Shape{1}, {0}))},
           {}, "sum");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(session_, Session::Create(std::move(graph), config));
  const Session::Feeds small = {{"x", Tensor(DType::kFloat32, Shape{16})}};
  const Session::Feeds large = {{"x", Tensor(DType::kFloat32, Shape{4096})}};
  EXPECT_OK(session_->Run(small, {"sum"}));
  const Status brief = session_->Run(large, {"sum"}).status();
  EXPECT_THAT(brief,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the arena of a program needs 32768 bytes")));
  EXPECT_EQ(Message(brief).find('\n'), std::string_view::npos);
  proto::RunOptions run;
  run.set_report_tensor_allocations_upon_oom(true);
  ASSERT_OK_AND_ASSIGN(const RunOptions options, RunOptionsFrom(run));
  const Status full = session_->RunWith(options, large, {"sum"}).status();
  EXPECT_THAT(full,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::AllOf(HasSubstr("by op, at the peak:"), HasSubstr("Square 'squared' float32[4096]"),
                                        HasSubstr("16384 bytes"), HasSubstr("Variable 'w' of localhost"))));
  EXPECT_OK(session_->Run(small, {"sum"}));  // the session goes on
}

}  // namespace
}  // namespace rivulet
