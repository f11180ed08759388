#include "cli/graph/profile.h"

#include <charconv>
#include <chrono>

#include "cli/graph/profile_gpu.h"
#include "cli/graph/profile_report.h"
#include "cli/graph/source.h"
#include "cli/interrupt.h"
#include "cli/run/watching.h"
#include "engine/data/event_file.h"
#include "engine/graph/drawing.h"
#include "engine/graphdef/graph_def.h"
#include "engine/profile/profile.h"
#include "engine/profile/profile_server.h"
#include "engine/profile/run_metadata.h"
#include "setup/blame_model.h"
#include "setup/model.h"
#include "simulations/shipped/shipped_scenarios.h"
#include "simulations/step_loop.h"

namespace rivulet {
namespace {

constexpr int64_t kMostSteps = 1'000'000;

struct ProfileOptions {
  GraphSourceOptions source;
  bool forward = false;
  std::string steps;
  bool all = false;
  bool json = false;
  std::string tensorboard;
  std::optional<int64_t> attach;
  TraceOptions trace;
  GpuProfileOptions gpu;
};

struct Range {
  int64_t first = 4, last = 23;  // counted from 1, both inclusive
};

StatusOr<int64_t> ParseCount(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMostSteps)
    return UsageError("--steps counts from 1 to {}, not '{}'", kMostSteps, text);
  return value;
}

// "A:B", or "N": so many steps after the warm-up.
StatusOr<Range> ParseRange(const std::string& text) {
  Range range;
  if (text.empty()) return range;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t steps, ParseCount(text));
    range.last = range.first + steps - 1;
    return range;
  }
  RIVULET_ASSIGN_OR_RETURN(range.first, ParseCount(std::string_view(text).substr(0, colon)));
  RIVULET_ASSIGN_OR_RETURN(range.last, ParseCount(std::string_view(text).substr(colon + 1)));
  if (range.last < range.first) return UsageError("--steps {} ends before it begins", text);
  return range;
}

double WallTime() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Sums the runs, and keeps the last ones for TensorBoard.
class ProfileSink final : public RunSink {
 public:
  bool Wants() override { return wanted; }
  void Take(const RecordedRun& run) override {
    builder.AddRun(run.spans, run.begin, run.end, run.dropped);
    if (!keep_metadata) return;
    metadata.push_back(RunMetadataOf(run.spans));
    if (metadata.size() > kKept) metadata.erase(metadata.begin());
  }
  static constexpr size_t kKept = 3;
  bool wanted = false, keep_metadata = false;
  ProfileBuilder builder;
  std::vector<std::string> metadata;  // of the last runs, serialised
};

// With --training a client's step of a scenario or preset (with initial values and a scenario's data as in a run), or
// for a graph file its loss, gradients and SGD. Without it the graph of `rivulet graph inspect`, on generated data.
StatusOr<std::unique_ptr<StepLoop>> LoopOf(const GraphSourceOptions& options) {
  if (!options.training || options.what.ends_with(".pb") || options.what.ends_with(".pbtxt")) {
    RIVULET_ASSIGN_OR_RETURN(GraphSource source, LoadGraphSource(options));
    return MakeGraphStepLoop(std::move(source.title), std::move(source.graph), source.signature, source.kernels);
  }
  Scenario scenario;
  const bool from_file = IsScenario(options.what);
  if (from_file) {
    StatusOr<Scenario> loaded = LoadByFileOrName(options.what);
    if (!loaded.ok()) return absl::IsNotFound(loaded.status()) ? loaded.status() : AsUsageError(loaded.status());
    scenario = *std::move(loaded);
  } else {
    scenario.run.name = options.what;
    scenario.model.preset = options.what;
    scenario.client.batch_size = 10;
    scenario.client.optimizer.learning_rate = 0.01;
  }
  const int64_t batch = options.batch.value_or(scenario.client.batch_size);
  if (const Status graph = RequireGraph(scenario); !graph.ok()) return AsUsageError(graph);
  RunSetup setup(std::move(scenario));
  if (const auto model = setup.model(); !model.ok() && !from_file) {
    return UsageError(
        "'{}' is no preset, no name of 'rivulet scenarios', and no file that ends in .pb, .pbtxt or .toml: {}",
        options.what, Message(model.status()));
  }
  if (const auto plan = setup.plan(); !plan.ok()) return BlameModel(setup.scenario(), plan.status());
  return MakeClientStepLoop(setup, batch, from_file);
}

Status Print(const Profile& profile, const ProfileOptions& options) {
  fmt::print("{}", options.json ? ProfileReportJson(profile) : ProfileText(profile, options.all));
  return absl::OkStatus();
}

Status Attach(const ProfileOptions& options) {
  if (!options.source.what.empty())
    return UsageError("--attach profiles the work of process {}; leave out '{}'", *options.attach, options.source.what);
  int64_t steps = 20;
  if (!options.steps.empty()) {
    RIVULET_ASSIGN_OR_RETURN(steps, ParseCount(options.steps));
  }
  Interrupt interrupt;
  fmt::print(stderr, "waiting for {} steps of process {}\n", steps, *options.attach);
  RIVULET_ASSIGN_OR_RETURN(Profile profile, ProfileOfProcess(static_cast<int>(*options.attach), steps, interrupt.fd()));
  profile.roofline = MeasureRoofline(1);
  return Print(profile, options);
}

// Runs steps on this thread; the sink gets those of the range.
StatusOr<Profile> ProfileHere(StepLoop& loop, const Range& range, ProfileSink& sink, TraceFile* trace,
                              const Interrupt& interrupt) {
  const Roofline roofline = MeasureRoofline(1);
  std::vector<RunSink*> sinks = {&sink};
  if (trace != nullptr) sinks.push_back(trace);
  StepMonitor monitor(sinks);
  for (int64_t step = 1; step <= range.last && !interrupt.happened(); ++step) {
    sink.wanted = step >= range.first;
    const int64_t begin = ProfileNanos();
    RIVULET_RETURN_IF_ERROR(loop.Feed(step - 1));
    MonitoredRun watched(sink.wanted ? &monitor : nullptr, loop.bindings());
    RIVULET_RETURN_IF_ERROR(loop.Run());
    const int64_t end = ProfileNanos();
    watched.Done();
    if (sink.wanted) sink.builder.AddStep(static_cast<double>(end - begin) * 1e-9);
  }
  if (interrupt.happened() && sink.builder.steps() == 0) return Cancelled("stopped before step {}", range.first);
  Profile profile = sink.builder.Build();
  profile.roofline = roofline;
  profile.title = loop.title();
  return profile;
}

Status ProfileSteps(ProfileOptions options) {
  RIVULET_RETURN_IF_ERROR(options.gpu.Check());
  if (options.gpu.on_gpu() && (options.attach || !options.tensorboard.empty()))
    return UsageError(
        "--device is for steps in this process without --tensorboard; leave it out with --attach and --tensorboard");
  if (options.attach) return Attach(options);
  if (options.source.what.empty())
    return UsageError("say what to profile: a scenario, a preset, a graph file, or --attach PID");
  RIVULET_ASSIGN_OR_RETURN(const Range range, ParseRange(options.steps));
  const bool file = options.source.what.ends_with(".pb") || options.source.what.ends_with(".pbtxt");
  if (options.forward && options.source.training) return UsageError("--forward and --training exclude each other");
  if (!file) options.source.training = !options.forward;
  std::unique_ptr<TraceFile> trace;
  ProfileSink sink;
  sink.keep_metadata = !options.tensorboard.empty();
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<StepLoop> loop, LoopOf(options.source));
  if (!options.trace.file.empty()) {
    RIVULET_ASSIGN_OR_RETURN(trace, TraceFile::Create(FileSystem::Default(), options.trace.file,
                                                      {.process = loop->title(),
                                                       .limit_bytes = options.trace.megabytes.value_or(256) << 20,
                                                       .detail_share = 0.99}));
    trace->NameThread("step");
  } else if (options.trace.megabytes) {
    return UsageError("--trace-megabytes needs --trace FILE");
  }
  Interrupt interrupt;
  StatusOr<Profile> profiled = options.gpu.on_gpu()
                                   ? ProfileOnGpu(*loop, range.first, range.last, options.gpu, interrupt, trace.get())
                                   : ProfileHere(*loop, range, sink, trace.get(), interrupt);
  RIVULET_RETURN_IF_ERROR(profiled.status());
  Profile& profile = *profiled;
  profile.title =
      fmt::format("{}, {}, steps {} to {}", profile.title, loop->data(), range.first, range.first + profile.steps - 1);
  // The forward node's source line is more useful than the place where gradients are made.
  for (InstructionProfile& row : profile.instructions)
    if (std::string line = loop->SourceLine(row.node); !line.empty()) row.source_line = std::move(line);
  if (trace != nullptr) {
    RIVULET_RETURN_IF_ERROR(trace->Close());
    if (const std::string missing = trace->Shortened(); !missing.empty()) fmt::print(stderr, "{}\n", missing);
  }
  if (!options.tensorboard.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const Graph drawn, WithOutputShapes(loop->graph()));
    std::vector<StepMetadata> metadata;
    const int64_t last = range.first + profile.steps - 1;
    for (size_t i = 0; i < sink.metadata.size(); ++i) {
      const int64_t step = last - static_cast<int64_t>(sink.metadata.size() - 1 - i);
      metadata.push_back({step, fmt::format("step {}", step), sink.metadata[i]});
    }
    RIVULET_ASSIGN_OR_RETURN(const std::string path, WriteProfileEvents(FileSystem::Default(), options.tensorboard,
                                                                        SerializeGraph(drawn), metadata, WallTime()));
    fmt::print(stderr, "{}: open with tensorboard --logdir {}\n", path, options.tensorboard);
  }
  return Print(profile, options);
}

}  // namespace

Command GraphProfileCommand() {
  auto options = std::make_shared<ProfileOptions>();
  Command profile{.name = "profile",
                  .summary = "Profile steps: time per layer, op and call, compared with this machine's peak.",
                  .example =
                      "rivulet graph profile quickstart\n  rivulet graph profile mnist_cnn --steps 10:40 --trace "
                      "steps.json\n  rivulet graph profile mnist_cnn --device gpu --lanes 64\n  rivulet graph profile "
                      "--attach 4711 --steps 100"};
  profile
      .OptionalPositional("WHAT", &options->source.what,
                          "a scenario (.toml, or a name of 'rivulet scenarios') or a preset's name: the step that "
                          "clients run; or a graph file (.pb, .pbtxt)")
      .Option("--steps", "A:B", &options->steps, "profile steps A to B, or N steps after three warm-up steps [4:23]")
      .Option("--batch", "N", &options->source.batch, "examples at once [the scenario's, or 10]", {1, 1 << 20})
      .Flag("--forward", &options->forward, "for a scenario or preset: profile its evaluation, on generated data")
      .Flag("--training", &options->source.training,
            "for a graph file: profile a training step, with gradients and SGD")
      .Option("--loss", "TENSOR", &options->source.loss, "for a graph file with --training: the loss [loss]")
      .Repeated("--fetch", "TENSOR", &options->source.fetches,
                "for a graph file: a tensor to compute [all without consumers]")
      .Option("--device", "cpu|gpu|gpu:N", &options->gpu.device,
              "profile on a GPU, by its driver's records, compared with its peak [cpu]")
      .Option("--lanes", "N", &options->gpu.lanes, "clients at once on a GPU, all on the same examples [1]", {1, 4096})
      .Flag("--all", &options->all, "list every call too")
      .Flag("--json", &options->json, "print one JSON object")
      .Option("--tensorboard", "DIR", &options->tensorboard,
              "write the graph and the cost of its last steps for TensorBoard too")
      .Option(
          "--attach", "PID", &options->attach,
          "profile the next steps (20, or --steps N) of a running simulate or client, or evaluations of a coordinator",
          {1, INT32_MAX});
  AddTraceOptions(profile, &options->trace);
  profile.run = [options] { return ProfileSteps(*options); };
  return profile;
}

}  // namespace rivulet
