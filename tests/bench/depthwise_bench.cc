// depthwise/DIRECTION/SHAPE/STRIDE[/NCHW]: depthwise 3×3 convolutions and their gradients by a program's kernel,
// interleaved with oneDNN's primitive in its preferred layout (nChw16c, weights reordered beforehand).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

#include "engine/program/program.h"
#include "tests/bench/kernel_run.h"
#include "tests/bench/peak.h"

namespace rivulet::bench {
namespace {

struct Depthwise {
  int64_t batch, channels, size, stride;
  int64_t out() const { return (size + stride - 1) / stride; }
  int64_t padding() const { return std::max<int64_t>(0, (out() - 1) * stride + 3 - size); }  // before and after, SAME
  int64_t in_elements() const { return batch * channels * size * size; }
  int64_t out_elements() const { return batch * channels * out() * out(); }
};

enum class Direction { kForward, kInput, kFilter };

StatusOr<std::unique_ptr<KernelRun>> MakeOurs(const Depthwise& s, Direction direction, bool nchw) {
  const auto image = [&](int64_t size) {
    return nchw ? Shape({s.batch, s.channels, size, size}) : Shape({s.batch, size, size, s.channels});
  };
  const Shape in = image(s.size), out = image(s.out()), filter({3, 3, s.channels, 1});
  const std::vector<int64_t> strides =
      nchw ? std::vector<int64_t>{1, 1, s.stride, s.stride} : std::vector<int64_t>{1, s.stride, s.stride, 1};
  const AttrMap attrs = {
      {"strides", strides}, {"padding", std::string("SAME")}, {"data_format", std::string(nchw ? "NCHW" : "NHWC")}};
  const DType kFloat = DType::kFloat32;
  switch (direction) {
    case Direction::kForward:
      return MakeKernelRun("DepthwiseConv2dNative", {{kFloat, in}, {kFloat, filter}}, attrs);
    case Direction::kInput:
      return MakeKernelRun("DepthwiseConv2dNativeBackpropInput", {SizesInput(in), {kFloat, filter}, {kFloat, out}},
                           attrs);
    case Direction::kFilter:
      return MakeKernelRun("DepthwiseConv2dNativeBackpropFilter", {{kFloat, in}, SizesInput(filter), {kFloat, out}},
                           attrs);
  }
  return Internal("no such direction");
}

// oneDNN's primitive in the layout of its choice.
std::function<void()> MakePeer(const Depthwise& s, Direction direction) {
  using dnnl::memory;
  using Tag = memory::format_tag;
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  const auto image = [&](int64_t size) {
    return memory::desc({s.batch, s.channels, size, size}, memory::data_type::f32, Tag::any);
  };
  const memory::desc filter({s.channels, 1, 1, 3, 3}, memory::data_type::f32, Tag::any);
  const memory::dims strides = {s.stride, s.stride}, before = {s.padding() / 2, s.padding() / 2};
  const memory::dims after = {s.padding() - before[0], s.padding() - before[0]};
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const memory::desc in = image(s.size), out = image(s.out());
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, in, filter, out, strides, before, after}, engine);
  const auto allocate = [](const memory::desc& desc) {
    memory made(desc, engine);
    std::memset(made.get_data_handle(), 0, desc.get_size());
    return made;
  };
  const dnnl::stream stream(engine);
  const auto call = [&](dnnl::primitive primitive, std::unordered_map<int, memory> arguments) {
    return [=]() mutable { primitive.execute(stream, arguments); };
  };
  switch (direction) {
    case Direction::kForward:
      return call(dnnl::convolution_forward(forward), {{DNNL_ARG_SRC, allocate(forward.src_desc())},
                                                       {DNNL_ARG_WEIGHTS, allocate(forward.weights_desc())},
                                                       {DNNL_ARG_DST, allocate(forward.dst_desc())}});
    case Direction::kInput: {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {algorithm, in, filter, out, strides, before, after}, engine, forward);
      return call(dnnl::convolution_backward_data(backward), {{DNNL_ARG_DIFF_SRC, allocate(backward.diff_src_desc())},
                                                              {DNNL_ARG_WEIGHTS, allocate(backward.weights_desc())},
                                                              {DNNL_ARG_DIFF_DST, allocate(backward.diff_dst_desc())}});
    }
    case Direction::kFilter: {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {algorithm, in, filter, out, strides, before, after}, engine, forward);
      return call(dnnl::convolution_backward_weights(backward),
                  {{DNNL_ARG_SRC, allocate(backward.src_desc())},
                   {DNNL_ARG_DIFF_WEIGHTS, allocate(backward.diff_weights_desc())},
                   {DNNL_ARG_DIFF_DST, allocate(backward.diff_dst_desc())}});
    }
  }
  return [] {};
}

// Of one convolution in NHWC, by hand: the first output pixel of channel 1, or what belongs there.
bool IsRight(const KernelRun& ours, const Depthwise& s, Direction direction, bool nchw) {
  const auto at = [&](const std::byte* image, int64_t size, int64_t y, int64_t x) {
    const int64_t i = nchw ? (size + y) * size + x : (y * size + x) * s.channels + 1;
    return static_cast<double>(reinterpret_cast<const float*>(image)[i]);
  };
  const int64_t before = s.padding() / 2, row = 3;  // away from the edges
  double expected = 0;
  if (direction == Direction::kFilter) {
    return true;  // sums over everything: what its tests are for
  }
  const float* filter = reinterpret_cast<const float*>(ours.inputs[1]);
  for (int64_t ky = 0; ky < 3; ++ky) {
    for (int64_t kx = 0; kx < 3; ++kx) {
      const double weight = static_cast<double>(filter[(ky * 3 + kx) * s.channels + 1]);
      if (direction == Direction::kForward) {
        expected += weight * at(ours.inputs[0], s.size, row * s.stride - before + ky, row * s.stride - before + kx);
      } else {
        const int64_t y = row + before - ky, x = row + before - kx;
        if (y % s.stride == 0 && x % s.stride == 0)
          expected += weight * at(ours.inputs[2], s.out(), y / s.stride, x / s.stride);
      }
    }
  }
  const int64_t size = direction == Direction::kForward ? s.out() : s.size;
  return std::abs(at(ours.outputs[0], size, row, row) - expected) < 1e-5;
}

void BenchDepthwise(benchmark::State& state, const Depthwise& s, Direction direction, bool nchw) {
  EnterWorkerThread();
  const auto ours = MakeOurs(s, direction, nchw);
  if (!ours.ok()) return state.SkipWithError(std::string(ours.status().message()).c_str());
  const auto peer = MakePeer(s, direction);
  const auto seconds = [](const auto& run) {
    const double start = ThreadSeconds();
    run();
    return ThreadSeconds() - start;
  };
  double best = std::numeric_limits<double>::max(), best_peer = best;
  for (auto _ : state) {
    Status status;
    const double time = seconds([&] { status = (*ours)->Run(); });
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
    best = std::min(best, time);
    state.PauseTiming();
    best_peer = std::min(best_peer, seconds(peer));
    state.ResumeTiming();
  }
  if (!IsRight(**ours, s, direction, nchw)) return state.SkipWithError("a pixel is wrong");
  state.SetLabel((*ours)->prepared.implementation);
  const double bytes = 4.0 * static_cast<double>(s.in_elements() + s.out_elements());
  state.counters["best_us"] = best * 1e6;
  state.counters["onednn_us"] = best_peer * 1e6;
  state.counters["to_onednn"] = best / best_peer;
  state.counters["bandwidth_share"] = benchmark::Counter(
      bytes * static_cast<double>(state.iterations()) / 1e9 / ReadGigabytes(), benchmark::Counter::kIsRate);
}

const bool depthwise_registered = [] {
  const std::pair<const char*, Direction> directions[] = {
      {"forward", Direction::kForward}, {"input", Direction::kInput}, {"filter", Direction::kFilter}};
  for (const Depthwise& s : {Depthwise{16, 32, 150, 1}, Depthwise{1, 96, 150, 2}, Depthwise{16, 96, 150, 2}}) {
    for (const auto& [name, direction] : directions) {
      for (const bool nchw : {false, true}) {
        const std::string row = fmt::format("depthwise/{}/{}x{}x{}x{}/{}{}", name, s.batch, s.channels, s.size, s.size,
                                            s.stride, nchw ? "/NCHW" : "");
        benchmark::RegisterBenchmark(row.c_str(), [=, direction = direction](benchmark::State& state) {
          BenchDepthwise(state, s, direction, nchw);
        })->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
