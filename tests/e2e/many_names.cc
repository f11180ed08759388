// many_names HOST:PORT NAMES: one process that speaks for many clients of a coordinator at once. All upload the same
// small delta, at the same time, each over a connection of its own, until the run is over: a load, not a learner.
#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "client/update_message_writer.h"
#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "federated/plan/plan.h"
#include "federated/transport/grpc_client.h"

namespace rivulet {
namespace {

struct Shared {
  Mutex mutex;
  std::shared_ptr<const std::string> tail GUARDED_BY(mutex);  // of every update: all but the task's name
};

StatusOr<std::string> FetchAll(CoordinatorApi& api, const Caller& caller, const Digest& digest) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, api.Fetch(caller, {digest}, 0));
  std::string bytes;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
    if (chunk.empty()) return bytes;
    bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  }
}

// Everything after the task's name, which comes first.
StatusOr<std::shared_ptr<const std::string>> Tail(Shared& shared, CoordinatorApi& api, const Caller& caller,
                                                  const Task& task) {
  MutexLock lock(shared.mutex);
  if (shared.tail == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(std::string bytes, FetchAll(api, caller, task.plan_digest));
    RIVULET_ASSIGN_OR_RETURN(const auto plan, Plan::Open(std::move(bytes)));
    const std::vector<float> delta(static_cast<size_t>(plan->layout()->update_elements()), 1e-6f);
    const FloatRun runs[] = {{delta.data(), nullptr, std::ssize(delta)}};
    const LocalResult::Part part{"delta", runs};
    std::string update = WriteUpdate("x", {&part, 1}, 10, {{"examples", 10}, {"steps", 1}, {"train_loss", 1}});
    update.erase(0, 3);  // key, length, "x"
    shared.tail = std::make_shared<const std::string>(std::move(update));
  }
  return shared.tail;
}

Status Upload(CoordinatorApi& api, const Caller& caller, const Task& task, const std::string& tail) {
  RIVULET_CHECK(task.id.size() < 128);
  const std::string head = std::string("\x0a") + static_cast<char>(task.id.size()) + task.id;
  const auto bytes = static_cast<int64_t>(head.size() + tail.size());
  const Digest digest = std::move(Sha256().Update(head).Update(tail)).Finish();
  for (;;) {
    StatusOr<std::unique_ptr<ChunkWriter>> writer = api.Submit(caller, task.id, 0, bytes, digest);
    if (absl::IsResourceExhausted(writer.status())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    RIVULET_RETURN_IF_ERROR(writer.status());
    const auto staged = static_cast<size_t>((*writer)->offset());  // by a call that was cut off
    const auto from = [&](const std::string& part, size_t skip) {
      return std::as_bytes(std::span(part).subspan(std::min(skip, part.size())));
    };
    Status status = (*writer)->Write(from(head, staged));
    if (status.ok()) status = (*writer)->Write(from(tail, staged - std::min(staged, head.size())));
    RIVULET_RETURN_IF_ERROR(status);
    RIVULET_ASSIGN_OR_RETURN(const SubmitResult result, (*writer)->Close());
    if (result.kind == SubmitResult::Kind::kRefused) return FailedPrecondition("refused: {}", result.reason);
    return absl::OkStatus();
  }
}

Status Serve(CoordinatorApi& api, Caller& caller, Shared& shared, bool* over) {
  RIVULET_ASSIGN_OR_RETURN(const PollReply reply, api.Poll(caller, {"load", {"train"}, 10}));
  *over = reply.kind == PollReply::Kind::kFinished;
  if (*over) return absl::OkStatus();
  if (reply.kind == PollReply::Kind::kWait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(reply.wait_ms));
    return absl::OkStatus();
  }
  caller.run_id = reply.task->run_id;
  RIVULET_ASSIGN_OR_RETURN(const auto tail, Tail(shared, api, caller, *reply.task));
  RIVULET_RETURN_IF_ERROR(FetchAll(api, caller, reply.task->model_blob).status());
  return Upload(api, caller, *reply.task, *tail);
}

// A server with as many calls as it can serve refuses the next one for now, which a hundred names that call at once on
// a busy machine do meet: like a client, each polls again and is given the same task.
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
