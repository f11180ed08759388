#include "serving/load_generator.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/base/mutex.h"
#include "proto/serving/open_inference.grpc.pb.h"
#include "rpc/grpc_options.h"
#include "rpc/security.h"
#include "serving/wire_values.h"

namespace rivulet {
namespace {

using Service = inference::GRPCInferenceService;
using Clock = std::chrono::steady_clock;

// The channel, with its security, which must outlive it.
struct Connection {
  std::unique_ptr<ChannelSecurity> security;
  std::unique_ptr<Service::Stub> stub;
};

StatusOr<Connection> Connect(const LoadOptions& options) {
  RIVULET_RETURN_IF_ERROR(options.credentials->Check(options.server));
  PrepareGrpc();
  KeepCallbackThreads();
  Connection connection;
  connection.security = options.credentials->ForChannel(options.server);
  grpc::ChannelArguments arguments;
  SetCommonArguments([&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetMaxReceiveMessageSize(-1);
  connection.stub = Service::NewStub(
      grpc::CreateCustomChannel(options.server.ToString(), connection.security->credentials(), arguments));
  return connection;
}

// Successive calls, `outstanding` of them at once. gRPC's threads call back.
template <typename Response>
class Load {
 public:
  using Call =
      std::function<void(grpc::ClientContext* context, Response* response, std::function<void(grpc::Status)> done)>;
  Load(Call call, const LoadOptions& options) : call_(std::move(call)), end_(Clock::now() + options.duration) {
    begin_ = Clock::now();
    places_.resize(static_cast<size_t>(options.outstanding));
    under_way_ = options.outstanding;
    for (Place& place : places_) Begin(place);
  }
  LoadResult Wait() {
    MutexLock lock(mutex_);
    while (under_way_ > 0) ended_.Wait(mutex_);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    result_.per_second = static_cast<double>(result_.answered) / seconds;
    std::ranges::sort(times_ms_);
    if (!times_ms_.empty()) {
      result_.p50_ms = times_ms_[times_ms_.size() / 2];
      result_.p99_ms = times_ms_[times_ms_.size() * 99 / 100];
    }
    return result_;
  }

 private:
  struct Place {
    std::unique_ptr<grpc::ClientContext> context;
    Response response;
    Clock::time_point begin;
  };
  void Begin(Place& place) {
    place.context = std::make_unique<grpc::ClientContext>();
    place.response.Clear();
    place.begin = Clock::now();
    call_(place.context.get(), &place.response, [this, &place](const grpc::Status& status) { Ended(place, status); });
  }
  void Ended(Place& place, const grpc::Status& status) {
    const auto now = Clock::now();
    {
      MutexLock lock(mutex_);
      if (status.ok()) {
        ++result_.answered;
        times_ms_.push_back(std::chrono::duration<double, std::milli>(now - place.begin).count());
      } else if (result_.failed++ == 0) {
        result_.first_error = status.error_message();
      }
      if (now >= end_) {
        if (--under_way_ == 0) ended_.NotifyAll();
        return;
      }
    }
    Begin(place);
  }

  const Call call_;
  Clock::time_point begin_;
  const Clock::time_point end_;
  std::vector<Place> places_;
  Mutex mutex_;
  CondVar ended_;
  int under_way_ GUARDED_BY(mutex_) = 0;
  LoadResult result_ GUARDED_BY(mutex_);
  std::vector<double> times_ms_ GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<LoadResult> LoadEmptyCalls(const LoadOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const Connection connection, Connect(options));
  const inference::ServerLiveRequest request;
  Load<inference::ServerLiveResponse> load(
      [&](grpc::ClientContext* context, inference::ServerLiveResponse* response,
          std::function<void(grpc::Status)> done) {
        connection.stub->async()->ServerLive(context, &request, response, std::move(done));
      },
      options);
  return load.Wait();
}

StatusOr<LoadResult> LoadInference(const LoadOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const Connection connection, Connect(options));
  inference::ModelMetadataRequest ask;
  ask.set_name(options.model);
  ask.set_version(options.version);
  inference::ModelMetadataResponse metadata;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  if (const grpc::Status status = connection.stub->ModelMetadata(&context, ask, &metadata); !status.ok())
    return Unavailable("{} does not tell the inputs of '{}': {}", options.server.ToString(), options.model,
                       status.error_message());
  inference::ModelInferRequest request;
  request.set_model_name(options.model);
  request.set_model_version(options.version);
  for (const auto& input : metadata.inputs()) {
    auto* const tensor = request.add_inputs();
    tensor->set_name(input.name());
    tensor->set_datatype(input.datatype());
    size_t bytes = static_cast<size_t>(options.rows) * SizeOf(WireType(input.datatype()));
    tensor->add_shape(options.rows);
    for (int i = 1; i < input.shape_size(); ++i) {
      tensor->add_shape(input.shape(i));
      bytes *= static_cast<size_t>(input.shape(i));
    }
    request.add_raw_input_contents(std::string(bytes, '\0'));
  }
  Load<inference::ModelInferResponse> load(
      [&](grpc::ClientContext* of_call, inference::ModelInferResponse* response,
          std::function<void(grpc::Status)> done) {
        connection.stub->async()->ModelInfer(of_call, &request, response, std::move(done));
      },
      options);
  return load.Wait();
}

}  // namespace rivulet
