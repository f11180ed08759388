// layer/OP/SHAPE: single convolutions, pools and their gradients with the shapes of the preset models.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>

#include "engine/program/program.h"
#include "tests/bench/kernel_run.h"
#include "tests/bench/peak.h"

namespace rivulet::bench {
namespace {

struct Row {
  std::string name, op;
  std::vector<KernelInput> inputs;
  AttrMap attrs;
};

void BenchLayer(benchmark::State& state, const Row& row) {
  EnterWorkerThread();
  const auto run = MakeKernelRun(row.op, row.inputs, row.attrs);
  if (!run.ok()) return state.SkipWithError(std::string(run.status().message()).c_str());
  double best = std::numeric_limits<double>::max(), bytes = 0;
  for (const AlignedBuffer& buffer : (*run)->memory) bytes += static_cast<double>(buffer.size());
  for (auto _ : state) {
    const double start = ThreadSeconds();
    const Status status = (*run)->Run();
    best = std::min(best, ThreadSeconds() - start);
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
  }
  state.SetLabel((*run)->prepared.implementation);
  state.counters["best_us"] = best * 1e6;
  state.counters["GB/s"] = bytes / best / 1e9;
  const double flops = (*run)->prepared.flops;
  if (flops > 0) state.counters["peak_share"] = flops / best / 1e9 / PeakGflops();
}

std::string Joined(const Shape& shape) {
  std::string text;
  for (int64_t dim : shape.dims()) text += fmt::format("{}{}", text.empty() ? "" : "x", dim);
  return text;
}

std::vector<Row> Rows() {
  const DType kFloat = DType::kFloat32;
  std::vector<Row> rows;
  const auto convolution = [&](const Shape& in, int64_t size, int64_t out_channels, int64_t stride, int64_t groups) {
    const Shape filter({size, size, in.dim(3) / groups, out_channels});
    const Shape out({in.dim(0), (in.dim(1) + stride - 1) / stride, (in.dim(2) + stride - 1) / stride, out_channels});
    const AttrMap attrs = {{"strides", std::vector<int64_t>{1, stride, stride, 1}}, {"padding", std::string("SAME")}};
    const std::string shape = fmt::format("{}/{}x{}/{}{}", Joined(in), size, size, out_channels,
                                          stride > 1 ? fmt::format("/stride{}", stride) : "");
    rows.push_back({"Conv2D/" + shape, "Conv2D", {{kFloat, in}, {kFloat, filter}}, attrs});
    AttrMap fused = attrs;
    fused["num_args"] = int64_t{1};
    fused["fused_ops"] = std::vector<std::string>{"BiasAdd", "Relu"};
    rows.push_back(
        {"_FusedConv2D/" + shape, "_FusedConv2D", {{kFloat, in}, {kFloat, filter}, {kFloat, {out_channels}}}, fused});
    if (in.dim(3) > 3)
      rows.push_back({"Conv2DBackpropInput/" + shape,
                      "Conv2DBackpropInput",
                      {SizesInput(in), {kFloat, filter}, {kFloat, out}},
                      attrs});
    rows.push_back({"Conv2DBackpropFilter/" + shape,
                    "Conv2DBackpropFilter",
                    {{kFloat, in}, SizesInput(filter), {kFloat, out}},
                    attrs});
  };
  const auto pool = [&](const Shape& in, int64_t size, int64_t stride) {
    const Shape out({in.dim(0), (in.dim(1) + stride - 1) / stride, (in.dim(2) + stride - 1) / stride, in.dim(3)});
    const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, size, size, 1}},
                           {"strides", std::vector<int64_t>{1, stride, stride, 1}},
                           {"padding", std::string("SAME")}};
    const std::string shape = fmt::format("{}/{}x{}/stride{}", Joined(in), size, size, stride);
    for (const std::string op : {"MaxPool", "AvgPool"}) rows.push_back({op + "/" + shape, op, {{kFloat, in}}, attrs});
    for (const std::string op : {"MaxPoolGrad", "_MaxPoolReluGrad"})
      rows.push_back({op + "/" + shape, op, {{kFloat, in}, {kFloat, out}, {kFloat, out}}, attrs});
    rows.push_back({"AvgPoolGrad/" + shape, "AvgPoolGrad", {SizesInput(in), {kFloat, out}}, attrs});
  };
  // mnist_cnn and cifar_cnn
  convolution({10, 28, 28, 1}, 5, 32, 1, 1);
  pool({10, 28, 28, 32}, 2, 2);
  convolution({10, 14, 14, 32}, 5, 64, 1, 1);
  pool({10, 14, 14, 64}, 2, 2);
  convolution({10, 32, 32, 3}, 5, 64, 1, 1);
  pool({10, 32, 32, 64}, 3, 2);
  // lenet5 and resnet20
  convolution({64, 28, 28, 1}, 5, 6, 1, 1);
  pool({64, 28, 28, 6}, 2, 2);
  convolution({64, 14, 14, 6}, 5, 16, 1, 1);
  convolution({10, 32, 32, 16}, 3, 16, 1, 1);
  convolution({10, 32, 32, 16}, 3, 32, 2, 1);
  convolution({10, 28, 28, 64}, 3, 64, 1, 4);
  return rows;
}

const bool layer_registered = [] {
  for (const Row& row : Rows()) {
    benchmark::RegisterBenchmark(("layer/" + row.name).c_str(), [row](benchmark::State& state) {
      BenchLayer(state, row);
    })->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
