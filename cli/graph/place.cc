// rivulet graph place: the device of each node of a graph, the reason, and the transfers between devices.
#include "cli/graph/place.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/graph/source.h"
#include "dataflow/placement/device_placer.h"
#include "dataflow/placement/partition.h"
#include "dataflow/placement/receive_schedule.h"
#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "engine/compile/compile.h"
#include "engine/graphdef/graph_def.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

struct PlaceOptions {
  GraphSourceOptions source;
  std::optional<int64_t> cpus, measure;
  std::vector<std::string> on, filters;
  bool soft = false, bfloat16 = false, late_receives = false, json = false;
  std::string costs, costs_out, out;
};

// The graph again, with the devices of `on` ("PREFIX=DEVICE", later ones win).
StatusOr<Graph> Constrain(const Graph& graph, const std::vector<std::string>& on) {
  std::vector<std::pair<std::string, std::string>> rules;
  for (const std::string& rule : on) {
    const size_t equals = rule.find('=');
    if (equals == std::string::npos) return UsageError("--on '{}' is no PREFIX=DEVICE, such as dense1=/cpu:1", rule);
    const StatusOr<DeviceName> device = ParseDeviceName(std::string_view(rule).substr(equals + 1));
    if (!device.ok()) return AsUsageError(Annotate(device.status(), fmt::format("--on '{}'", rule)));
    rules.emplace_back(rule.substr(0, equals), device->ToString());
  }
  std::vector<bool> used(rules.size());
  Graph constrained;
  for (const auto& [name, function] : graph.functions()) RIVULET_RETURN_IF_ERROR(constrained.AddFunction(function));
  std::vector<Node*> all;
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  for (const Node* node : graph.TopologicalOrder(all)) {
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs())
      spec.inputs.push_back({constrained.Find(input.node->name()), input.port});
    for (const Node* before : node->control_inputs()) spec.control_inputs.push_back(constrained.Find(before->name()));
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!node->name().starts_with(rules[i].first)) continue;
      spec.device = rules[i].second;
      used[i] = true;
    }
    RIVULET_RETURN_IF_ERROR(constrained.AddNode(std::move(spec)).status());
  }
  for (size_t i = 0; i < rules.size(); ++i)
    if (!used[i]) return UsageError("--on '{}': no node's name begins with '{}'", on[i], rules[i].first);
  return constrained;
}

// Runs the graph on zeros: costs of nodes seldom depend on values.
StatusOr<CostModel> MeasureSteps(const GraphSource& source, int64_t steps) {
  EnterWorkerThread();
  CompileOptions options;
  options.kernels = source.kernels;
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(source.graph, source.signature, options));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  AlignedBuffer arena(program->memory().arena_bytes);
  std::vector<AlignedBuffer> memory;
  std::vector<size_t> sizes;
  for (const VariableBinding& variable : source.signature.variables) {
    if (sizes.size() <= static_cast<size_t>(variable.buffer)) sizes.resize(static_cast<size_t>(variable.buffer) + 1);
    size_t& size = sizes[static_cast<size_t>(variable.buffer)];
    size = std::max(size, variable.offset + TensorBytes(variable.spec));
  }
  std::vector<Buffer> buffers;
  for (size_t size : sizes) {
    memory.emplace_back(size);
    buffers.push_back({memory.back().data(), DType::kFloat32, 0});
  }
  std::vector<Tensor> feeds, fetches;
  std::vector<TensorView> feed_views, fetch_views;
  for (const FeedSpec& feed : source.signature.feeds) feeds.emplace_back(feed.spec.dtype, feed.spec.shape);
  for (const TensorSpec& spec : program->fetch_specs()) fetches.emplace_back(spec.dtype, spec.shape);
  for (const Tensor& feed : feeds) feed_views.push_back(feed.view());
  for (const Tensor& fetch : fetches) fetch_views.push_back(fetch.view());
  const StreamKey rng;
  CostObserver observer;
  for (int64_t i = 0; i <= steps; ++i) {
    const uint64_t step = static_cast<uint64_t>(i);
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.buffers = buffers;
    bindings.feeds = feed_views;
    bindings.fetches = fetch_views;
    bindings.rng = {&rng, 1};
    bindings.step = {&step, 1};
    if (i > 0) bindings.observer = &observer;  // the first run touches its memory for the first time
    RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
  }
  return observer.model();
}

struct Cut {
  RunGraph run;
  int64_t transfers = 0, bytes = 0;
  RunForecast forecast;
};

StatusOr<Cut> CutGraph(const GraphSource& source, const Graph& graph, const DeviceSet& devices,
                       const Placement& placement, const CostModel& costs, const PlaceOptions& options) {
  std::vector<std::string> feeds;
  for (const FeedSpec& feed : source.signature.feeds) feeds.push_back(feed.tensor);
  RIVULET_ASSIGN_OR_RETURN(const RunGraph run,
                           PruneForRun(graph, feeds, source.signature.fetches, source.signature.targets));
  std::map<std::string, std::string> placed;
  for (const auto& node : graph.nodes())
    placed[node->name()] =
        devices[static_cast<size_t>(placement.device[static_cast<size_t>(node->id())])].name.ToString();
  RIVULET_ASSIGN_OR_RETURN(const Placement mine, PlaceGraph(run.graph, devices, {options.soft, &placed, nullptr}));
  Cut cut;
  RIVULET_ASSIGN_OR_RETURN(cut.run,
                           PartitionRun(run, devices, mine.device, {options.bfloat16, options.late_receives, &costs}));
  for (const auto& node : cut.run.graph.nodes()) {
    if (node->type() != "_Recv") continue;
    ++cut.transfers;
    cut.bytes += costs.Bytes(node->output());
  }
  cut.forecast = ForecastRun(cut.run.graph, costs);
  return cut;
}

Status Place(const PlaceOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const GraphSource source, LoadGraphSource(options.source));
  RIVULET_ASSIGN_OR_RETURN(const Graph graph, Constrain(source.graph, options.on));
  RIVULET_ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::LocalCpus(static_cast<int>(options.cpus.value_or(2))));
  StatusOr<DeviceSet> left = devices.Filter(options.filters);
  if (!left.ok()) return AsUsageError(left.status());
  devices = *std::move(left);
  CostModel costs;
  if (!options.costs.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(options.costs));
    StatusOr<CostModel> read = CostModel::Parse(bytes);
    if (!read.ok()) return Annotate(read.status(), options.costs);
    costs = *std::move(read);
    if (costs.empty())
      return InvalidArgument("'{}' has no costs; --measure N --costs-out FILE.pb writes such a file", options.costs);
  }
  if (options.measure) {
    RIVULET_ASSIGN_OR_RETURN(const CostModel measured, MeasureSteps(source, *options.measure));
    costs.Merge(measured);
  }
  RIVULET_ASSIGN_OR_RETURN(const Placement placement,
                           PlaceGraph(graph, devices, {options.soft, nullptr, costs.empty() ? nullptr : &costs}));
  RIVULET_ASSIGN_OR_RETURN(const Cut cut, CutGraph(source, graph, devices, placement, costs, options));
  if (!options.costs_out.empty())
    RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), options.costs_out, costs.Serialize(graph)));
  if (!options.out.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const auto parts, SplitByDevice(cut.run.graph));
    for (const auto& [device, part] : parts) {
      std::string file = options.out;
      const StatusOr<DeviceName> name = ParseDeviceName(device);
      file += fmt::format(".{}_{}.pb", *name->type, *name->id);
      RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), file, SerializeGraph(part)));
      fmt::print(stderr, "{}: {} nodes of {}\n", file, part.nodes().size(), device);
    }
  }

  // The short form: all devices here are of one task.
  const auto shown = [&](int device) {
    const DeviceName& name = devices[static_cast<size_t>(device)].name;
    return options.json ? name.ToString() : fmt::format("{}:{}", *name.type, *name.id);
  };
  Table nodes({{"node"}, {"op"}, {"device"}, {"why", false, 4, 96}});
  std::map<int, int64_t> counts;
  for (const auto& node : graph.nodes()) {
    const size_t id = static_cast<size_t>(node->id());
    ++counts[placement.device[id]];
    nodes.Add({node->name(), std::string(node->type()), shown(placement.device[id]), placement.why[id]});
  }
  Table per_device({{"device"}, {"nodes"}, {"peak_bytes"}});
  for (const auto& [device, count] : counts) {
    const auto peak = cut.forecast.peak_bytes.find(devices[static_cast<size_t>(device)].name.ToString());
    per_device.Add({devices[static_cast<size_t>(device)].name.ToString(), count,
                    peak == cut.forecast.peak_bytes.end() ? int64_t{0} : peak->second});
  }
  if (options.json) {
    const Json json = {{"graph", source.title},
                       {"nodes", nodes.Rows()},
                       {"devices", per_device.Rows()},
                       {"notes", placement.notes},
                       {"transfers", cut.transfers},
                       {"transferred_bytes", cut.bytes},
                       {"forecast_us", cut.forecast.makespan * 1e6}};
    fmt::print("{}\n", json.Dump());
    return absl::OkStatus();
  }
  fmt::print("{}: {} nodes on {} of {} devices\n\n{}\n", source.title, graph.nodes().size(), counts.size(),
             devices.size(), nodes.Text());
  for (const std::string& note : placement.notes) fmt::print("{}\n", note);
  fmt::print("{}{}\n{} transfers of {:.1f} KiB", placement.notes.empty() ? "" : "\n", per_device.Text(), cut.transfers,
             static_cast<double>(cut.bytes) / 1024);
  if (!costs.empty()) fmt::print("; a step is foretold to take {:.1f} us", cut.forecast.makespan * 1e6);
  fmt::print("\n");
  return absl::OkStatus();
}

}  // namespace

Command GraphPlaceCommand() {
  auto options = std::make_shared<PlaceOptions>();
  Command place{.name = "place",
                .summary = "Show the placement of a graph's nodes on devices, its reasons, and the transfers.",
                .example =
                    "rivulet graph place logistic_regression --training --on dense1=/cpu:1\n  "
                    "rivulet graph place mnist_cnn --training --measure 20 --costs-out costs.pb"};
  place
      .Positional("WHAT", &options->source.what,
                  "a graph file (.pb, .pbtxt), a scenario (.toml, or a name of 'rivulet scenarios') or a preset's name")
      .Option("--batch", "N", &options->source.batch, "examples at once [the scenario's, or 10]", {1, 1 << 20})
      .Flag("--training", &options->source.training,
            "use a training step: gradients and SGD; for a scenario, its clients' step")
      .Repeated("--fetch", "TENSOR", &options->source.fetches,
                "for a graph file: a tensor to compute [all without consumers]")
      .Option("--loss", "TENSOR", &options->source.loss, "for a graph file with --training: the loss [loss]")
      .Option("--cpus", "N", &options->cpus, "number of CPU devices [2]", {1, 64})
      .Repeated("--on", "PREFIX=DEVICE", &options->on,
                "constrain nodes with names that begin with PREFIX; later options win")
      .Repeated("--device-filter", "DEVICE", &options->filters, "use only devices that match one of these")
      .Flag("--soft", &options->soft, "relax a constraint that no device meets")
      .Flag("--bfloat16", &options->bfloat16, "send float32 tensors as bfloat16")
      .Flag("--late-receives", &options->late_receives, "receive just before the result is needed")
      .Option("--measure", "N", &options->measure, "run N steps on zeros and place by the measured costs", {1, 100'000})
      .Option("--costs", "FILE.pb", &options->costs, "place by the costs in this CostGraphDef file")
      .Option("--costs-out", "FILE.pb", &options->costs_out, "write the costs as a CostGraphDef")
      .Option("--out", "PREFIX", &options->out, "write each device's graph to PREFIX.CPU_0.pb, PREFIX.CPU_1.pb, …")
      .Flag("--json", &options->json, "print one JSON object");
  place.run = [options] { return Place(*options); };
  return place;
}

}  // namespace rivulet
