// gpu_kernels [--lanes N] [--times N] [--batch N] [--elements N] [PRESET…]: products and convolutions of the presets'
// training steps on GPU 0, by our kernels and by NVIDIA's libraries; rows of engine/kernels/cuda/product_table.cc last.
#include <charconv>
#include <cstdio>
#include <set>

#include "client/training/pass_programs.h"
#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "tests/gpu_kernels/measured_kernels.h"
#include "tests/gpu_kernels/recorded_shapes.h"

namespace rivulet {
namespace {

// A library is taken where it is at least so much faster.
constexpr double kWorthIt = 0.95;

struct Arguments {
  MeasureOptions measure;
  int64_t batch = 10;
  std::vector<std::string> presets;
};

StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      arguments.presets.emplace_back(word);
      continue;
    }
    int64_t number = 0;
    const std::string_view text = i + 1 < argc ? argv[++i] : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 1) return InvalidArgument("{} takes a number from 1 on, not '{}'", word, text);
    if (word == "--lanes") {
      arguments.measure.lanes = static_cast<int>(number);
    } else if (word == "--times") {
      arguments.measure.times = static_cast<int>(number);
    } else if (word == "--batch") {
      arguments.batch = number;
    } else if (word == "--elements") {
      arguments.measure.most_elements = number;
    } else {
      return InvalidArgument("there is no option {}; there are --lanes, --times, --batch and --elements", word);
    }
  }
  if (arguments.presets.empty()) arguments.presets = PresetNames();
  return arguments;
}

StatusOr<RecordedShapes> ShapesOf(const RivuletGpuApi& backend, const Arguments& arguments) {
  RecordedShapes shapes;
  for (const std::string& preset : arguments.presets) {
    Scenario scenario;
    scenario.run.name = "kernels";
    scenario.model.preset = preset;
    scenario.client.batch_size = arguments.batch;
    RIVULET_ASSIGN_OR_RETURN(const ModelDef model, Preset(preset));
    RIVULET_ASSIGN_OR_RETURN(std::string bytes, BuildPlan(scenario, model));
    RIVULET_ASSIGN_OR_RETURN(auto plan, Plan::Open(std::move(bytes)));
    PassPrograms programs(std::move(plan));
    RIVULET_ASSIGN_OR_RETURN(const auto step, programs.GpuStep(TaskKind::kTrain, 0, arguments.batch));
    RIVULET_RETURN_IF_ERROR(Annotate(RecordShapes(backend, *step, shapes), preset));
  }
  return shapes;
}

void Print(const std::string& what, double flops, const StatusOr<Measured>& measured) {
  if (!measured.ok()) {
    std::printf("%s: %s\n", what.c_str(), std::string(Message(measured.status())).c_str());
    return;
  }
  const auto rate = [&](double microseconds) {
    return fmt::format("{:.1f} us, {:.2f} TFLOP/s", microseconds, flops / microseconds / 1e6);
  };
  std::printf("%s: ours %s%s%s%s\n", what.c_str(), rate(measured->ours_microseconds).c_str(),
              measured->im2col_microseconds ? ("; im2col " + rate(*measured->im2col_microseconds)).c_str() : "",
              measured->library.empty() ? "" : ("; library: " + measured->library).c_str(),
              measured->library_microseconds ? (", " + rate(*measured->library_microseconds)).c_str() : "");
  std::fflush(stdout);
}

// Rows of a class: as the tiles of our own kernels divide them.
std::pair<int, int> RowsLike(int rows) {
  if (rows <= 16) return {1, 16};
  if (rows < 512) return {17, 511};
  return {512, std::numeric_limits<int32_t>::max()};
}

std::string RowOf(const GpuDevice& device, const gpu::ProductArguments& p, const gpu::LibraryAlgorithm& by) {
  const auto [least, most] = RowsLike(p.rows);
  return fmt::format("{{{}, {}, \"float\", {}, {}, {}, {}, {}, {}, {{{}, {}, {}, {}, {}, {}, {}}}}},",
                     device.properties().compute_major, device.properties().compute_minor, p.a_depth != 1,
                     p.b_depth == 1, least, most, p.columns, p.depth, by.id, by.tile, by.stages, by.swizzling,
                     by.custom, by.inner_shape, by.cluster_shape);
}

Status Run(const Arguments& arguments) {
  EnterWorkerThread();
  RIVULET_ASSIGN_OR_RETURN(const RivuletGpuApi* const backend, CudaBackend());
  RIVULET_ASSIGN_OR_RETURN(const RecordedShapes shapes, ShapesOf(*backend, arguments));
  RIVULET_ASSIGN_OR_RETURN(const auto device, GpuDevice::Open(*backend, 0));
  std::printf("%s, %d lanes, batch %lld\n", device->properties().name, arguments.measure.lanes,
              static_cast<long long>(arguments.batch));
  std::vector<std::string> rows;
  const double lanes = arguments.measure.lanes;
  for (const gpu::ProductArguments& p : shapes.products) {
    const auto measured = MeasureProduct(*device, p, arguments.measure);
    const double flops = 2.0 * p.rows * p.columns * p.depth * p.batches * lanes;
    Print(fmt::format("float product {} x {} x {}{}{}{}", p.rows, p.columns, p.depth, p.a_depth != 1 ? " a turned" : "",
                      p.b_depth == 1 ? " b turned" : "", p.batches > 1 ? fmt::format(" {} times", p.batches) : ""),
          flops, measured);
    if (measured.ok() && measured->algorithm &&
        *measured->library_microseconds < kWorthIt * measured->ours_microseconds)
      rows.push_back(RowOf(*device, p, *measured->algorithm));
  }
  for (const RecordedConvolution& c : shapes.convolutions) {
    const auto measured = MeasureConvolution(*device, c.arguments, c.direction, arguments.measure);
    const gpu::ConvolutionArguments& a = c.arguments;
    static constexpr const char* kNames[] = {"convolution", "gradient of an image", "gradient of a filter"};
    Print(fmt::format("float {} {} x {} x {}", kNames[static_cast<int>(c.direction)], a.rows, a.columns, a.depth),
          2.0 * a.rows * a.columns * a.depth * lanes, measured);
  }
  std::printf("rows of engine/kernels/cuda/product_table.cc: %zu\n", rows.size());
  for (const std::string& row : rows) std::printf("    %s\n", row.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace rivulet

int main(int argc, char** argv) {
  const auto arguments = rivulet::Parse(argc, argv);
  const rivulet::Status status = arguments.ok() ? rivulet::Run(*arguments) : arguments.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "gpu_kernels: %s\n", std::string(rivulet::Message(status)).c_str());
  return arguments.ok() ? 1 : 2;
}
