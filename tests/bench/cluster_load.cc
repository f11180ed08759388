// What `./bench.sh --cluster` (cluster.py) makes its rows of: a task's calls beside gRPC alone.
//   cluster_load bare                       serves bare calls, and prints its port
//   cluster_load calls BARE_PORT TASK SIZES  RecvTensor from the task at TASK beside a bare call of as many bytes
//   cluster_load steps BARE_PORT TARGET      steps of nothing over two tasks beside a bare call of nothing
// Calls take turns. A line of JSON is one row: medians in microseconds.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "dataflow/cluster/grpc_task.h"
#include "dataflow/placement/rendezvous.h"
#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"

namespace {

using namespace rivulet;
using Clock = std::chrono::steady_clock;

// ---- gRPC alone: one message each way, whose bytes nobody looks into

// The bytes of an answer, made once for each size.
grpc::ByteBuffer Message(size_t bytes) {
  static grpc::Slice whole;
  if (whole.size() < bytes) whole = grpc::Slice(std::string(bytes, 'x'));
  const grpc::Slice slice = whole.sub(0, bytes);
  return {&slice, 1};
}

// So many bytes in messages of at most `piece`.
class BareCall final : public grpc::ServerGenericBidiReactor {
 public:
  BareCall(size_t bytes, size_t piece) : left_(bytes), piece_(piece) { StartRead(&in_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    Message(std::min(left_, piece_));
    OnWriteDone(true);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    const size_t bytes = std::min(left_, piece_);
    left_ -= bytes;
    out_ = Message(bytes);
    if (left_ > 0) return StartWrite(&out_);
    StartWriteAndFinish(&out_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  size_t left_;
  const size_t piece_;
  grpc::ByteBuffer in_, out_;
};

class BareService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    char* rest = nullptr;  // "/BYTES/PIECE"
    const size_t bytes = std::strtoull(context->method().c_str() + 1, &rest, 10);
    return new BareCall(bytes, std::strtoull(rest + 1, nullptr, 10));
  }
};

int ServeBare() {
  BareService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}

class Bare {
 public:
  explicit Bare(const std::string& port) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials(), arguments);
  }
  // In messages of at most `piece` bytes.
  Status Get(size_t bytes, size_t piece) {
    class Call final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
     public:
      void OnReadDone(bool ok) override {
        if (!ok) return;
        got += in.Length();
        in.Clear();
        StartRead(&in);
      }
      void OnDone(const grpc::Status& status) override { ended.set_value(status); }
      grpc::ClientContext context;
      grpc::ByteBuffer request = Message(1), in;
      size_t got = 0;
      std::promise<grpc::Status> ended;
    } call;
    call.context.set_wait_for_ready(true);
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel_);
    stub.PrepareBidiStreamingCall(&call.context, fmt::format("/{}/{}", bytes, piece), {}, &call);
    call.StartWriteLast(&call.request, {});
    call.StartRead(&call.in);
    call.StartCall();
    const grpc::Status status = call.ended.get_future().get();
    if (!status.ok()) return Unavailable("{}", status.error_message());
    return call.got == bytes ? absl::OkStatus() : Internal("{} of {} bytes came", call.got, bytes);
  }
  // One message each way, by the call that gRPC has for that.
  Status Call() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const grpc::ByteBuffer request = Message(1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> ended;
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel_);
    stub.UnaryCall(&context, "/1/1", {}, &request, &response,
                   [&](const grpc::Status& status) { ended.set_value(status); });
    const grpc::Status status = ended.get_future().get();
    return status.ok() ? absl::OkStatus() : Unavailable("{}", status.error_message());
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

// ---- a task

template <typename Value>
Value Await(const std::function<void(std::function<void(Value)>)>& call) {
  std::promise<Value> answer;
  call([&](Value value) { answer.set_value(std::move(value)); });
  return answer.get_future().get();
}

constexpr char kSession[] = "cluster_load";

// A task that has a graph of one send, of `bytes` bytes of float32.
class Sender {
 public:
  static StatusOr<std::unique_ptr<Sender>> Create(const std::string& address, size_t bytes) {
    auto sender = std::make_unique<Sender>();
    RIVULET_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::Parse("worker=" + address));
    RIVULET_ASSIGN_OR_RETURN(sender->task_, GrpcTask(cluster.tasks()[0], InsecureCredentials(false)));
    RIVULET_ASSIGN_OR_RETURN(
        const auto devices, (Await<StatusOr<std::vector<TaskDevice>>>(
                                [&](RemoteTask::DevicesDone done) { sender->task_->GetStatus({}, std::move(done)); })));
    sender->elements_ = static_cast<int64_t>(bytes / sizeof(float));
    Graph graph;
    const Scope scope = Scope(graph).WithDevice(devices[0].name);
    const Output size = scope.Const(Tensor::Of<int32_t>({1}, {static_cast<int32_t>(sender->elements_)}));
    const Output sent = scope.Op("Fill", {size, scope.Const(Tensor::Scalar(kValue))});
    const std::string to = "/job:worker/replica:0/task:1/device:CPU:0";
    scope.AddNode("_Send", {sent},
                  {{"tensor_name", "values"},
                   {"send_device", devices[0].name},
                   {"send_device_incarnation", static_cast<int64_t>(devices[0].incarnation)},
                   {"recv_device", to},
                   {"client_terminated", false}},
                  "send");
    RIVULET_RETURN_IF_ERROR(scope.status());
    sender->key_ = RendezvousKey{devices[0].name, devices[0].incarnation, to, "values"}.ToString();
    RIVULET_RETURN_IF_ERROR(
        Await<Status>([&](RemoteTask::Done done) { sender->task_->CreateWorkerSession({kSession}, std::move(done)); }));
    RIVULET_ASSIGN_OR_RETURN(sender->graph_, (Await<StatusOr<std::string>>([&](RemoteTask::HandleDone done) {
                               sender->task_->RegisterGraph({kSession, SerializeGraph(graph)}, std::move(done));
                             })));
    return sender;
  }
  ~Sender() {
    if (graph_.empty()) return;
    Await<Status>([&](RemoteTask::Done done) { task_->DeleteWorkerSession(kSession, std::move(done)); }).IgnoreError();
  }

  // Computes the tensor, and parks it.
  Status Run() {
    return Await<StatusOr<NamedTensors>>([&](RemoteTask::TensorsDone done) {
             task_->RunGraph({kSession, graph_, ++step_}, {}, std::move(done));
           })
        .status();
  }
  StatusOr<Tensor> Recv() {
    return Await<StatusOr<Tensor>>(
        [&](RemoteTask::TensorDone done) { task_->RecvTensor(step_, key_, {}, std::move(done)); });
  }
  Status CleanUp(const Tensor& tensor) {
    RIVULET_RETURN_IF_ERROR(Await<Status>([&](RemoteTask::Done done) { task_->CleanupGraph(step_, std::move(done)); }));
    const auto values = tensor.flat<float>();
    if (tensor.elements() != elements_ || values.front() != kValue || values.back() != kValue ||
        values[values.size() / 2] != kValue)
      return Internal("other values came than were sent");
    return absl::OkStatus();
  }

 private:
  static constexpr float kValue = 1.25f;
  std::shared_ptr<RemoteTask> task_;
  std::string graph_, key_;
  int64_t step_ = 0, elements_ = 0;
};

// ---- measuring

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}
double Microseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Quantities of one row, in turns: what is ours first, then its rulers. A share is the ruler's time over ours.
void Print(const std::string& row, size_t bytes,
           const std::vector<std::pair<std::string, std::vector<double>>>& times) {
  std::string text = fmt::format("{{\"row\": \"{}\", \"bytes\": {}", row, bytes);
  for (const auto& [name, values] : times) {
    std::vector<double> shares;
    for (size_t i = 0; i < values.size(); ++i) shares.push_back(values[i] / times[0].second[i]);
    text += fmt::format(", \"{}_us\": {:.1f}", name, Median(values));
    if (&values != &times[0].second) text += fmt::format(", \"share_of_{}\": {:.3f}", name, Median(shares));
  }
  std::printf("%s}\n", text.c_str());
  std::fflush(stdout);
}

// Calls each in turn; the first turns warm up.
using Measured = std::pair<std::string, std::function<StatusOr<double>()>>;
StatusOr<std::vector<std::pair<std::string, std::vector<double>>>> InTurns(const std::vector<Measured>& measured,
                                                                           int warm_up, int turns) {
  std::vector<std::pair<std::string, std::vector<double>>> times;
  for (const auto& [name, call] : measured) times.emplace_back(name, std::vector<double>());
  for (int turn = -warm_up; turn < turns; ++turn) {
    for (size_t i = 0; i < measured.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const double took, measured[i].second());
      if (turn >= 0) times[i].second.push_back(took);
    }
  }
  return times;
}
std::function<StatusOr<double>()> Timed(std::function<Status()> call) {
  return [call = std::move(call)]() -> StatusOr<double> {
    const Clock::time_point started = Clock::now();
    RIVULET_RETURN_IF_ERROR(call());
    return Microseconds(started);
  };
}

Status Calls(Bare& bare, const std::string& task, size_t bytes) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Sender> sender, Sender::Create(task, bytes));
  const auto receive = [&]() -> StatusOr<double> {
    RIVULET_RETURN_IF_ERROR(sender->Run());
    const Clock::time_point started = Clock::now();
    RIVULET_ASSIGN_OR_RETURN(const Tensor tensor, sender->Recv());
    const double took = Microseconds(started);
    RIVULET_RETURN_IF_ERROR(sender->CleanUp(tensor));
    return took;
  };
  constexpr size_t kPiece = size_t{1} << 20;
  RIVULET_ASSIGN_OR_RETURN(const auto times, InTurns({{"recv_tensor", receive},
                                                      {"bare_message", Timed([&] { return bare.Get(bytes, bytes); })},
                                                      {"bare_pieces", Timed([&] { return bare.Get(bytes, kPiece); })}},
                                                     2, bytes < 100'000'000 ? 61 : 7));
  Print("recv_tensor", bytes, times);
  return absl::OkStatus();
}

Status Steps(Bare& bare, const std::string& target) {
  Graph graph;
  const Scope scope(graph);
  for (int task = 0; task < 2; ++task)
    scope.WithDevice(fmt::format("/job:worker/task:{}", task)).AddNode("NoOp", {}, {}, fmt::format("nothing_{}", task));
  RIVULET_RETURN_IF_ERROR(scope.status());
  SessionConfig config;
  config.target = target;
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(graph), config));
  const auto step = [&] { return session->Run({}, {}, {"nothing_0", "nothing_1"}).status(); };
  RIVULET_ASSIGN_OR_RETURN(
      const auto times, InTurns({{"step", Timed(step)}, {"bare_call", Timed([&] { return bare.Call(); })}}, 200, 2000));
  Print("step_of_nothing", 0, times);
  return absl::OkStatus();
}

Status Run(int argc, char** argv) {
  const std::string mode = argv[1];
  Bare bare(argv[2]);
  if (mode == "steps") return Steps(bare, argv[3]);
  for (int i = 4; i < argc; ++i) RIVULET_RETURN_IF_ERROR(Calls(bare, argv[3], std::strtoull(argv[i], nullptr, 10)));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "bare") return ServeBare();
  const Status status = argc < 4 ? InvalidArgument("see the first lines of cluster_load.cc") : Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "cluster_load: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
