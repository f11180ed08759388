// many_names HOST:PORT NAMES: one process that speaks for many clients of a coordinator at once. All upload the same
// small delta, at the same time, each over a connection of its own, until the run is over: a load, not a learner.
#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "client/agent/update_message_writer.h"
#include "client/calls/send_submission.h"
#include "engine/base/mutex.h"
#include "federated/plan/plan.h"
#include "federated/transport/grpc_client.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {
namespace {

struct Load {
  std::string update;
  BlockCrcs crcs;
};
struct Shared {
  Mutex mutex;
  std::shared_ptr<const Load> load GUARDED_BY(mutex);  // the same for every task
};

StatusOr<std::string> FetchAll(CoordinatorApi& api, const Caller& caller, const BlobId& id) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, api.Fetch(caller, id, 0));
  std::string bytes;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
    if (chunk.empty()) return bytes;
    bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  }
}

StatusOr<std::shared_ptr<const Load>> LoadOf(Shared& shared, CoordinatorApi& api, const Caller& caller,
                                             const Task& task) {
  MutexLock lock(shared.mutex);
  if (shared.load == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(std::string bytes, FetchAll(api, caller, {BlobId::Form::kBytes, task.plan}));
    RIVULET_ASSIGN_OR_RETURN(const auto plan, Plan::Open(std::move(bytes)));
    const std::vector<float> delta(static_cast<size_t>(plan->layout()->update_elements()), 1e-6f);
    const FloatRun runs[] = {{delta.data(), nullptr, std::ssize(delta)}};
    const PartView part{.name = "delta", .runs = runs};
    auto load = std::make_shared<Load>();
    load->update = WriteUpdate({&part, 1}, {{"examples", 10}, {"steps", 1}, {"train_loss", 1}});
    load->crcs.Append(std::as_bytes(std::span(load->update)));
    shared.load = std::move(load);
  }
  return shared.load;
}

Status Upload(CoordinatorApi& api, const Caller& caller, const Task& task, const std::shared_ptr<const Load>& load) {
  for (;;) {
    const StatusOr<SubmitResult> result =
        SendSubmission(api, caller, {task.id, task.step, std::ssize(load->update)},
                       std::as_bytes(std::span(load->update)), load->crcs, {.holder = load});
    if (absl::IsResourceExhausted(result.status())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    RIVULET_RETURN_IF_ERROR(result.status());
    if (result->kind == SubmitResult::Kind::kRefused) return FailedPrecondition("refused: {}", result->reason);
    return absl::OkStatus();
  }
}

Status Serve(CoordinatorApi& api, Caller& caller, Shared& shared, bool* over) {
  RIVULET_ASSIGN_OR_RETURN(const PollReply reply, api.Poll({caller, {.version = "load", .datasets = {{"train", 10}}}}));
  *over = reply.over.has_value();
  if (*over) return absl::OkStatus();
  if (reply.tasks.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(reply.wait_ms));
  for (const Task& task : reply.tasks) {
    caller.run_id = task.run_id;
    RIVULET_ASSIGN_OR_RETURN(const auto load, LoadOf(shared, api, caller, task));
    RIVULET_RETURN_IF_ERROR(FetchAll(api, caller, task.input("model")->id).status());
    RIVULET_RETURN_IF_ERROR(Upload(api, caller, task, load));
  }
  return absl::OkStatus();
}

// A connection may be lost on a busy machine: like a client, each name polls again and is given the same task.
Status SpeakFor(const std::string& name, const NetworkAddress& coordinator, Shared& shared) {
  RIVULET_ASSIGN_OR_RETURN(const auto api,
                           GrpcClient::Create({.coordinator = coordinator, .credentials = InsecureCredentials(false)}));
  Caller caller{.name = name};
  for (bool over = false; !over;) {
    const Status status = Serve(*api, caller, shared, &over);
    if (absl::IsUnavailable(status)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    RIVULET_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace rivulet

int main(int argc, char** argv) {
  using namespace rivulet;
  if (argc != 3) return 2;
  const auto address = ParseAddress(argv[1]);
  if (!address.ok()) return 2;
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    threads.emplace_back([&, i] {
      const Status status = SpeakFor(fmt::format("client-{:05}", i), *address, shared);
      if (status.ok()) return;
      // The others would wait for this one until the round's deadline.
      fmt::print(stderr, "client-{:05}: {}\n", i, Message(status));
      std::_Exit(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}
