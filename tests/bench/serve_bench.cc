// serve/MODEL/ROWS: a model behind `rivulet serve`'s gRPC front over loopback, in turns with the engine alone. Requests
// of ROWS examples each, 64 examples under way. Both ends share the cores.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "engine/base/available_cores.h"
#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "inspect/model_source.h"
#include "serving/grpc_front.h"
#include "serving/load_generator.h"
#include "serving/model_server.h"

namespace rivulet::bench {
namespace {

constexpr int64_t kUnderWay = 64;  // examples
constexpr std::chrono::milliseconds kTurn{1500};
constexpr int kTurns = 4;

struct ServeFolder {
  std::string path = (std::filesystem::temp_directory_path() / "rivulet-bench-XXXXXX").string();
  ServeFolder() {
    if (mkdtemp(path.data()) == nullptr) path.clear();
  }
  ~ServeFolder() {
    if (!path.empty()) std::filesystem::remove_all(path);
  }
  std::string Write(const char* name, std::string_view bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
    return path + "/" + name;
  }
};

StatusOr<NameToServe> PresetToServe(const ServeFolder& folder, const std::string& preset) {
  Scenario scenario;
  scenario.run.name = "bench";
  scenario.model.preset = preset;
  scenario.data.partition.clients = 1;
  scenario.server.clients_per_round = 1;
  RIVULET_ASSIGN_OR_RETURN(const ModelDef model, Preset(preset));
  RIVULET_ASSIGN_OR_RETURN(const auto plan, ComposePlan(scenario, model));
  RIVULET_ASSIGN_OR_RETURN(const auto values, InitialModel(*plan, 7));
  const std::string bytes = ModelToSafetensors(*values, {});
  Digest digest;
  RIVULET_RETURN_IF_ERROR(ModelFromSafetensors(plan->layout(), bytes, &digest).status());
  NameToServe served{.name = preset};
  served.fixed = {{1, "bench", 0, digest.Hex(), plan->digest().Hex()},
                  folder.Write("plan", plan->bytes()),
                  folder.Write("version", bytes)};
  return served;
}

// Examples a second of batches of `batch`, on as many threads as the server's.
StatusOr<double> EngineAlone(const LoadedVersion& version, int64_t batch, int threads) {
  RIVULET_ASSIGN_OR_RETURN(const auto program, version.plan->ProgramOf(batch));
  std::atomic<int64_t> steps = 0;
  std::atomic<bool> failed = false;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      EnterWorkerThread();
      const auto instance = program->Instantiate();
      auto arena = AlignedBuffer::Create(program->memory().arena_bytes);
      std::vector<Tensor> values;
      std::vector<TensorView> feeds, fetches;
      for (const FeedSpec& feed : program->signature().feeds) values.emplace_back(feed.spec.dtype, feed.spec.shape);
      for (const TensorSpec& spec : program->fetch_specs()) values.emplace_back(spec.dtype, spec.shape);
      for (size_t k = 0; k < values.size(); ++k)
        (k < program->signature().feeds.size() ? feeds : fetches).push_back(values[k].view());
      const Buffer params{const_cast<std::byte*>(version.model->arena().data()), DType::kFloat32, 0};
      Bindings bindings;
      bindings.arena = arena->data();
      bindings.buffers = {&params, 1};
      bindings.feeds = feeds;
      bindings.fetches = fetches;
      while (std::chrono::steady_clock::now() - begin < kTurn) {
        if (!(*instance)->Run(bindings).ok()) failed = true;
        ++steps;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  if (failed) return Internal("a step of the engine failed");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return static_cast<double>(steps * batch) / seconds;
}

Status RunServe(benchmark::State& state, const std::string& preset, int64_t rows) {
  const ServeFolder folder;
  RIVULET_ASSIGN_OR_RETURN(const NameToServe served, PresetToServe(folder, preset));
  const int threads = AvailableCores();
  ModelServerOptions options{.names = {served}, .batch = {.threads = threads}, .plan = {.scores = ScoresOf}};
  RIVULET_ASSIGN_OR_RETURN(const auto server, ModelServer::Start(FileSystem::Default(), std::move(options)));
  const auto credentials = InsecureCredentials(false);
  RIVULET_ASSIGN_OR_RETURN(const auto front, GrpcFront::Start(*server, {{"127.0.0.1", 0}, credentials}));
  RIVULET_ASSIGN_OR_RETURN(const Route route, server->Choose(preset, "", ""));
  const LoadOptions load{.server = front->address(),
                         .credentials = credentials,
                         .model = preset,
                         .outstanding = static_cast<int>(kUnderWay / rows),
                         .rows = rows,
                         .duration = kTurn};
  RIVULET_RETURN_IF_ERROR(LoadInference(load).status());  // threads and connections begin
  std::vector<double> shares, engine, of_server, batches;
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn) {
      const int64_t steps = server->batcher().steps();
      RIVULET_ASSIGN_OR_RETURN(const LoadResult result, LoadInference(load));
      if (result.failed > 0) return Internal("a request failed: {}", result.first_error);
      const double batch =
          static_cast<double>(result.answered * rows) / static_cast<double>(server->batcher().steps() - steps);
      const auto sizes = server->batcher().sizes();
      const auto size = std::ranges::lower_bound(sizes, static_cast<int64_t>(batch + 0.5));
      RIVULET_ASSIGN_OR_RETURN(const double alone,
                               EngineAlone(*route.version, size == sizes.end() ? sizes.back() : *size, threads));
      of_server.push_back(result.per_second * static_cast<double>(rows));
      engine.push_back(alone);
      batches.push_back(batch);
      shares.push_back(of_server.back() / alone);
    }
  }
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  state.counters["examples/s"] = median(of_server);
  state.counters["engine_examples/s"] = median(engine);
  state.counters["batch"] = median(batches);
  state.counters["engine_share"] = median(shares);
  return absl::OkStatus();
}

const bool kServeRows = [] {
  for (const char* const preset : {"mnist_cnn", "logistic_regression"}) {
    for (const int64_t rows : {1, 8, 32}) {
      benchmark::RegisterBenchmark(fmt::format("serve/{}/{}", preset, rows).c_str(),
                                   [preset, rows](benchmark::State& state) {
                                     const Status status = RunServe(state, preset, rows);
                                     if (!status.ok()) state.SkipWithError(std::string(Message(status)).c_str());
                                   })
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
