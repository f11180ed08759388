// rivulet bench op: one kernel alone, with all implementations side by side.

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/bench/serve.h"
#include "cli/command.h"
#include "cli/run/device_option.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/table.h"
#include "engine/profile/gpu_roofline.h"
#include "engine/profile/op_bench.h"
#include "engine/profile/op_bench_gpu.h"
#include "engine/profile/profile.h"
#include "engine/profile/roofline.h"

namespace rivulet {
namespace {

struct BenchOptions {
  OpBenchOptions bench;
  std::string algorithm = "all";
  std::string device = "cpu";
  std::optional<int64_t> lanes;
  bool json = false;
};

Status CheckDevice(const BenchOptions& options) {
  if (options.device != "cpu") return CheckGpuNames(options.device);
  return options.lanes ? UsageError("--lanes is for a GPU; give --device gpu too, or leave --lanes out")
                       : absl::OkStatus();
}

// The GPUs of --device; none for the host.
StatusOr<GpuDevices> DevicesOf(const BenchOptions& options) {
  if (options.device == "cpu") return GpuDevices();
  return OpenGpus(options.device);
}

// The largest difference, relative to the largest value; infinite if only one side is finite.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) {
      if (std::isfinite(a[i])) largest = std::max(largest, std::abs(static_cast<double>(a[i])));
      continue;
    }
    const double gap = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!std::isfinite(gap)) return INFINITY;
    difference = std::max(difference, gap);
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

// Sums of k numbers in another order differ by about sqrt(k) roundings, and 16-bit results by one of their
// roundings.
double ToleranceOf(const std::string& dtype, const OpTiming& first) {
  const double rounding = dtype == "float64" || dtype == "double" ? 1e-7  // compared as float32
                          : dtype == "bfloat16"                   ? 1.0 / 128
                          : dtype == "float16" || dtype == "half" ? 1.0 / 1024
                                                                  : 6e-8;
  const double outputs = static_cast<double>(std::max<size_t>(first.outputs.size(), 1));
  const double depth = std::max(first.flops / 2 / outputs, 1.0);
  return 8 * rounding * std::sqrt(depth);
}

// The op's algorithms to time on the host.
StatusOr<std::vector<std::string>> WantedOf(const BenchOptions& options, const std::vector<std::string>& known) {
  if (options.algorithm != "all") {
    if (std::ranges::find(known, options.algorithm) != known.end()) return std::vector{options.algorithm};
    return UsageError("this op has no --algorithm '{}'; give all, {}.{}", options.algorithm, Join(known, ", "),
                      DidYouMean(options.algorithm, known));
  }
  if (options.device != "cpu") return std::vector<std::string>{"native"};  // for comparison
  // The two instruction sets that differ most from a machine's default with AVX-512.
  std::vector<std::string> wanted;
  for (const std::string& name : known)
    if (!IsInstructionSet(name) || name == "avx2" || name == "none") wanted.push_back(name);
  return wanted;
}

// The measurements; all are compared with the first.
struct Measured {
  std::vector<OpTiming> timings;    // the host's, then one per GPU
  std::vector<Roofline> rooflines;  // of each
  std::vector<std::string> skipped;
  GpuDevices devices;
};

Status TimeOnHost(const OpBenchGraph& bench, const std::vector<std::string>& wanted, Measured& measured) {
  for (const std::string& algorithm : wanted) {
    StatusOr<OpTiming> timing = TimeAlgorithm(bench, algorithm);
    const bool needed = algorithm == "native" || wanted.size() == 1;
    if (!timing.ok()) {
      // An error of the op itself is the same for all of them.
      if (needed) return Annotate(timing.status(), algorithm);
      measured.skipped.push_back(fmt::format("{}: {}", algorithm, Message(timing.status())));
    } else if (!timing->skipped.empty()) {
      if (needed) return FailedPrecondition("{}: {}", algorithm, timing->skipped);
      measured.skipped.push_back(fmt::format("{}: {}", algorithm, timing->skipped));
    } else {
      measured.timings.push_back(*std::move(timing));
    }
  }
  measured.rooflines.assign(measured.timings.size(), MeasureRoofline(1));
  return absl::OkStatus();
}

Status TimeOnGpus(const OpBenchGraph& bench, const BenchOptions& options, Measured& measured) {
  RIVULET_ASSIGN_OR_RETURN(measured.devices, DevicesOf(options));
  for (const auto& device : measured.devices) {
    RIVULET_ASSIGN_OR_RETURN(OpTiming timing, TimeOnGpu(bench, device, static_cast<int>(options.lanes.value_or(1))));
    if (!timing.skipped.empty()) return FailedPrecondition("{}: {}", options.device, timing.skipped);
    if (measured.devices.size() > 1) timing.algorithm += fmt::format(" {}", device->number());
    measured.timings.push_back(std::move(timing));
    RIVULET_ASSIGN_OR_RETURN(measured.rooflines.emplace_back(), MeasureGpuRoofline(*device));
  }
  return absl::OkStatus();
}

// A row each; `apart` gets a message for each whose results differ by more than the tolerance.
Table TableOf(const Measured& measured, double tolerance, std::vector<std::string>& apart) {
  Table table({{"algorithm"},
               {"implementation"},
               {"kernel", true},
               {"runs"},
               {"median_us", false, 2},
               {"gflop_per_s", false, 2},
               {"gb_per_s", false, 2},
               {"roofline_percent", false, 1},
               {"difference", true},
               {"agrees"}});
  const OpTiming& first = measured.timings.front();
  for (size_t i = 0; i < measured.timings.size(); ++i) {
    const OpTiming& timing = measured.timings[i];
    const double difference = Difference(first.outputs, timing.outputs);
    if (difference > tolerance)
      apart.push_back(fmt::format("{} differs from {} by {:.2g}", timing.algorithm, first.algorithm, difference));
    table.Add({timing.algorithm, TextCell(timing.implementation), TextCell(timing.kernel), timing.runs,
               timing.seconds * 1e6, timing.flops > 0 ? Cell(timing.flops / timing.seconds / 1e9) : Cell(),
               timing.bytes / timing.seconds / 1e9,
               100 * measured.rooflines[i].Seconds(timing.flops, timing.bytes) / timing.seconds, difference,
               difference == 0 ? std::string("bits") : fmt::format("{:.1e}", difference)});
  }
  return table;
}

void PrintText(const std::string& title, const Measured& measured, const Table& table) {
  const OpTiming& first = measured.timings.front();
  const Roofline& host = measured.rooflines.front();
  fmt::print("{}: {:.3f} MFLOP, {:.1f} KiB, one thread of {:.1f} GFLOP/s and {:.1f} GB/s for as much memory\n\n{}",
             title, first.flops / 1e6, first.bytes / 1024, host.flops_per_second / 1e9,
             host.BytesPerSecond(first.bytes) / 1e9, table.Text());
  for (const std::string& line : measured.skipped) fmt::print("{}\n", line);
  const size_t of_host = measured.timings.size() - measured.devices.size();
  for (size_t i = 0; i < measured.devices.size(); ++i) {
    const Roofline& of_device = measured.rooflines[of_host + i];
    fmt::print("GPU {}, {}: {:.1f} GFLOP/s by multiply-adds, {:.1f} GB/s for as much memory by a copy\n",
               measured.devices[i]->number(), measured.devices[i]->properties().name, of_device.flops_per_second / 1e9,
               of_device.BytesPerSecond(measured.timings.back().bytes) / 1e9);
  }
}

Status BenchOp(const BenchOptions& options) {
  RIVULET_RETURN_IF_ERROR(CheckDevice(options));
  RIVULET_ASSIGN_OR_RETURN(const OpBenchGraph bench, MakeOpBenchGraph(options.bench));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> wanted, WantedOf(options, AlgorithmsFor(bench)));
  Measured measured;
  // The host's come first: they run in child processes, which cannot inherit an opened device.
  RIVULET_RETURN_IF_ERROR(TimeOnHost(bench, wanted, measured));
  RIVULET_RETURN_IF_ERROR(TimeOnGpus(bench, options, measured));
  const OpTiming& first = measured.timings.front();
  const double tolerance = ToleranceOf(options.bench.dtype, first);
  std::vector<std::string> apart;
  const Table table = TableOf(measured, tolerance, apart);
  if (options.json) {
    const Json json = {{"op", options.bench.op},    {"title", bench.title},   {"flops", first.flops},
                       {"bytes", first.bytes},      {"tolerance", tolerance}, {"skipped", measured.skipped},
                       {"algorithms", table.Rows()}};
    fmt::print("{}\n", json.Dump());
  } else {
    PrintText(bench.title, measured, table);
  }
  if (apart.empty()) return absl::OkStatus();
  return Internal("the results are farther apart than {:.1g} of the largest: {}", tolerance, Join(apart, "; "));
}

const RegisterCommand kBench(67, [] {
  auto options = std::make_shared<BenchOptions>();
  Command op{.name = "op",
             .summary = "Time every implementation of one op on generated data, and compare their results.",
             .example =
                 "rivulet bench op MatMul --shape 64x784 --shape 784x128\n  rivulet bench op Conv2D --shape "
                 "10x28x28x32 --shape 5x5x32x64 --attr strides=1,1,1,1 --attr padding=SAME\n  rivulet bench op "
                 "Transpose --shape 64x32x16 --shape =2,0,1\n  rivulet bench op MatMul --shape 10x784 --shape 784x200 "
                 "--device gpu --lanes 64"};
  op.Positional("NAME", &options->bench.op, "the op, such as MatMul")
      .Repeated("--shape", "SHAPE", &options->bench.shapes,
                "shape of each input in turn: 64x784, 'scalar', or its values: =1,0")
      .Option("--dtype", "TYPE", &options->bench.dtype, "type of the inputs, if the op allows several [float32]")
      .Repeated("--attr", "NAME=VALUE", &options->bench.attrs, "an attribute of the op; lists as 1,2,2,1")
      .Option("--algorithm", "NAME", &options->algorithm,
              "all; native, portable; dnnl, own, eigen, reference if the op has them; or an instruction set: avx512, "
              "avx2, sse4, none [all]")
      .Option("--device", "cpu|gpu|gpu:N", &options->device,
              "time on a GPU too (several: gpu:0,gpu:1 or gpu:all), and compare with its peak and with the processor's "
              "native kernel [cpu]")
      .Option("--lanes", "N", &options->lanes, "instances at once on a GPU, like the clients of a training [1]",
              {1, 4096})
      .Flag("--json", &options->json, "print one JSON object");
  op.run = [options] { return BenchOp(*options); };
  Command bench{
      .name = "bench", .summary = "Benchmark single parts.", .example = "rivulet bench op Relu --shape 1000x1000"};
  bench.subcommands = {std::move(op), BenchServeCommand()};
  return bench;
});

}  // namespace
}  // namespace rivulet
