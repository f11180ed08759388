// A run small enough to follow by hand: a model of a few numbers, a plan of arbitrary bytes, and clients with invented
// deltas. Each is a pure function of (seed, client, base round, ordinal, base model), like training.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>

#include "coordinator/history/history.h"
#include "coordinator/run_parts.h"
#include "federated/random/streams.h"
#include "federated/states/state_blob.h"
#include "federated/states/state_store.h"
#include "federated/updates/block_crcs.h"
#include "proto/federated/update.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {

// In memory: these tests sync thousands of times, and FaultyFileSystem simulates the losses of a crash.
class TestFolder : public testing::TempFolder {
 public:
  TestFolder() : TempFolder(Place::kMemory) {}
  std::string db() const { return File("runs.sqlite"); }
};

inline RunParts TinyParts(int64_t elements, int64_t updates_per_version) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{elements}}, Segment::kTrainable},
                                    {"fixed", {DType::kFloat32, Shape{2}}, Segment::kFrozen}};
  RunParts parts;
  parts.layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  parts.plan = std::make_shared<const std::string>("the plan");
  parts.plan_digest = Sha256Of(*parts.plan);
  parts.aggregation.parts = {{.elements = elements}};
  parts.aggregation.updates_per_version = updates_per_version;
  parts.initial_model = [layout = parts.layout]() -> StatusOr<std::shared_ptr<const Model>> {
    auto model = std::make_shared<Model>(layout);
    for (const Slice& slice : layout->slices()) {
      for (float& value : model->tensor(slice).flat<float>()) value = 1;
    }
    return model;
  };
  return parts;
}

inline Scenario TinyScenario(int64_t clients, int64_t clients_per_round, int64_t rounds) {
  Scenario scenario;
  scenario.run.name = "tiny";
  scenario.run.rounds = rounds;
  scenario.run.seed = 11;
  scenario.model.preset = "logistic_regression";
  scenario.data.train = "/data/train.tfrecord";
  scenario.data.test = "/data/test.tfrecord";
  scenario.data.partition.clients = clients;
  scenario.server.clients_per_round = clients_per_round;
  return scenario;
}

inline std::vector<std::string> Names(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("client-{:05}", i));
  return names;
}

inline std::vector<float> FakeDelta(const Task& task, const Model& base) {
  Draws draws(StreamFor(task.stream_key, Purpose::kGraph, static_cast<uint32_t>(task.base_version), task.ordinal), 0);
  std::vector<float> delta(static_cast<size_t>(base.layout().update_elements()));
  const auto* values = reinterpret_cast<const float*>(base.arena().data());
  for (size_t i = 0; i < delta.size(); ++i) delta[i] = static_cast<float>(draws.Normal()) * 0.1f - 0.1f * values[i];
  return delta;
}

// FakeDelta; if clients have states, shifted by the client's state: how often its updates were aggregated.
inline StatusOr<std::vector<float>> DeltaOf(const Task& task, const Model& base, ClientStateStore* states) {
  std::vector<float> delta = FakeDelta(task, base);
  if (states == nullptr) return delta;
  std::vector<float> count = {0};
  const NamedState named[] = {{"n", count}};
  states->Expect(INT64_MAX);
  RIVULET_ASSIGN_OR_RETURN(const StateBlob kept, states->Read(task.run_id, task.client_id, task.state_of));
  if (!kept.empty()) RIVULET_RETURN_IF_ERROR(ReadState(kept, named));
  for (float& value : delta) value += 0.125f * count[0];
  ++count[0];
  RIVULET_RETURN_IF_ERROR(states->Propose(task.run_id, task.client_id, task.id, WriteState(named)));
  return delta;
}

inline std::string MakeUpdate(const std::vector<float>& delta, int64_t examples, double train_loss = 0.5) {
  proto::Update update;
  proto::UpdatePart& part = *update.add_parts();
  part.set_name("delta");
  part.set_data(delta.data(), delta.size() * sizeof(float));
  (*update.mutable_scalars())["examples"] = static_cast<double>(examples);
  (*update.mutable_scalars())["steps"] = 6;
  (*update.mutable_scalars())["train_loss"] = train_loss;
  return update.SerializeAsString();
}

// Returns the rows in `result` by value: a loop over `*Rows(…)` would use a destroyed temporary.
template <typename T>
T Value(StatusOr<T> result) {
  EXPECT_OK(result);
  return result.ok() ? *std::move(result) : T{};
}

inline Caller As(const std::string& name) { return {.name = name}; }
// A poll of client `name` with so many examples in "train".
inline PollRequest AskedBy(const std::string& name, int64_t examples = 5) {
  return {As(name), {.version = "test", .datasets = {{"train", examples}}}};
}

inline BlockCrcs CrcsOf(const std::string& update) {
  BlockCrcs crcs;
  crcs.Append(std::as_bytes(std::span(update)));
  return crcs;
}
inline Digest IdentityOf(const std::string& update) { return CrcsOf(update).Identity(0); }
inline Submission Announce(const TaskId& task, const std::string& update) {
  return {task, 0, std::ssize(update), {.train_seconds = 0.25}};
}

// Polls once for each client. A client that gets a task gets it again at its next poll.
inline Status Join(CoordinatorApi& api, const std::vector<std::string>& names) {
  for (const std::string& name : names) RIVULET_RETURN_IF_ERROR(api.Poll(AskedBy(name)).status());
  return absl::OkStatus();
}

// Resumes the upload at `from`, a block boundary, of the staged bytes.
inline StatusOr<SubmitResult> Send(CoordinatorApi& api, const std::string& name, const TaskId& task,
                                   const std::string& update, size_t chunk = SIZE_MAX, size_t from = 0) {
  RIVULET_ASSIGN_OR_RETURN(auto writer, api.Submit(As(name), Announce(task, update)));
  if (const SubmitResult* decided = writer->decided()) return *decided;
  RIVULET_RETURN_IF_ERROR(writer->Resume(static_cast<int64_t>(from)));
  for (size_t offset = from; offset < update.size();) {
    const std::string_view piece = std::string_view(update).substr(offset, chunk);
    RIVULET_RETURN_IF_ERROR(writer->Write(std::as_bytes(std::span(piece.data(), piece.size()))));
    offset += piece.size();
  }
  return writer->Finish(IdentityOf(update));
}

// Uploads one MiB at a time; calls `step`, if set, before and after each call.
inline StatusOr<SubmitResult> SendInBlocks(CoordinatorApi& api, const Caller& caller, const Submission& submission,
                                           const std::string& bytes, const std::function<void()>& step) {
  constexpr size_t kBlock = 1 << 20;
  const auto point = [&] {
    if (step) step();
  };
  point();
  RIVULET_ASSIGN_OR_RETURN(const auto writer, api.Submit(caller, submission));
  point();
  if (const SubmitResult* const decided = writer->decided()) return *decided;
  RIVULET_RETURN_IF_ERROR(writer->Resume(0));
  for (size_t offset = 0; offset < bytes.size(); offset += kBlock) {
    point();
    RIVULET_RETURN_IF_ERROR(
        writer->Write(std::as_bytes(std::span(bytes).subspan(offset, std::min(kBlock, bytes.size() - offset)))));
  }
  point();
  StatusOr<SubmitResult> result = writer->Finish(IdentityOf(bytes));
  point();
  return result;
}

inline StatusOr<std::string> ReadToEnd(ChunkReader& reader) {
  std::string bytes;
  while (true) {
    RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader.Next());
    if (chunk.empty()) return bytes;
    bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  }
}

// Central evaluation that needs no data.
class FakeEvaluator : public Evaluator {
 public:
  StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) override {
    ++calls;
    const float first = *reinterpret_cast<const float*>(model.arena().data());
    return std::map<std::string, Measure>{{"test/accuracy", {1 / (1 + std::abs(static_cast<double>(first)))}},
                                          {"test/loss", {first}},
                                          {"test/rate", Measure::Rate(228, 1000)}};
  }
  int calls = 0;
};

// Works on every offered task, in order, until the run ends. Client behaviour can be replaced.
class FakeFleet {
 public:
  // Sets the observer of `options`, which forwards to the previous one.
  explicit FakeFleet(CoordinatorOptions& options) {
    options.observer.on_offer = [this](const std::string& client_id) { Push(client_id); };
    options.observer.on_finished = [this](const Status&) { Push(""); };
    options.observer.on_round = [this](const RoundReport& report) { reports.push_back(report); };
    options.observer.on_action = [this](const std::string& action) { actions.push_back(action); };
  }

  // Lets the clients join and works; returns the run's result.
  Status Run(Coordinator& coordinator, const std::vector<std::string>& names) {
    RIVULET_RETURN_IF_ERROR(Join(coordinator, names));
    while (true) {
      const std::string client_id = Pop();
      if (client_id.empty()) return coordinator.Wait();
      RIVULET_ASSIGN_OR_RETURN(const PollReply reply, coordinator.Poll(AskedBy(client_id)));
      for (const Task& task : reply.tasks) {
        if (act) {
          act(coordinator, client_id, task);
        } else {
          const Status worked = Work(coordinator, client_id, task, states).status();
          if (Message(worked) == "the run has ended") break;  // Wait returns the reason
          RIVULET_RETURN_IF_ERROR(worked);
        }
      }
    }
  }

  static StatusOr<SubmitResult> Work(Coordinator& coordinator, const std::string& client_id, const Task& task,
                                     ClientStateStore* states = nullptr) {
    RIVULET_ASSIGN_OR_RETURN(auto reader, coordinator.Fetch(As(client_id), task.input("model")->id, 0));
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, ReadToEnd(*reader));
    RIVULET_ASSIGN_OR_RETURN(const auto base, ModelFromSafetensors(coordinator.model()->shared_layout(), bytes));
    const int64_t examples = 10 + static_cast<int64_t>(client_id.back() - '0');
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> delta, DeltaOf(task, *base, states));
    return Send(coordinator, client_id, task.id, MakeUpdate(delta, examples));
  }

  std::function<void(Coordinator&, const std::string&, const Task&)> act;
  ClientStateStore* states = nullptr;  // of all clients; null: clients have no states
  std::vector<RoundReport> reports;    // callbacks are not concurrent
  std::vector<std::string> actions;

 private:
  void Push(const std::string& client_id) {
    std::lock_guard lock(mutex_);
    offers_.push_back(client_id);
    changed_.notify_one();
  }
  std::string Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !offers_.empty(); });
    std::string client_id = std::move(offers_.front());
    offers_.pop_front();
    return client_id;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> offers_;
};

// model_digest by round.
inline StatusOr<std::map<int64_t, std::string>> DigestsOfRun(const std::string& db, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto rounds, history->Rounds(run_id));
  std::map<int64_t, std::string> digests;
  for (const RoundRow& round : rounds) {
    if (round.status == "committed") digests[round.round] = round.model_digest;
  }
  return digests;
}

// Runs a complete tiny run and returns its digests.
inline StatusOr<std::map<int64_t, std::string>> RunTiny(CoordinatorOptions options, RunParts parts, int64_t clients,
                                                        ClientStateStore* states = nullptr) {
  FakeFleet fleet(options);
  fleet.states = states;
  const std::string db = options.db_path;
  std::string run_id;
  {
    RIVULET_ASSIGN_OR_RETURN(auto coordinator, CreateCoordinator(options, std::move(parts)));
    run_id = coordinator->run_id();
    RIVULET_RETURN_IF_ERROR(fleet.Run(*coordinator, Names(clients)));
  }
  return DigestsOfRun(db, run_id);
}

}  // namespace rivulet
