#include "tests/gpu_kernels/measured_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/cuda/product_launch.h"

namespace rivulet {
namespace {

using gpu::ConvolutionArguments;
using gpu::ConvolutionDirection;
using gpu::ProductArguments;

constexpr int kMostCandidates = 16;
constexpr double kRelativeError = 1e-4;

// A tensor of every lane.
struct Lanes {
  GpuMemory memory;
  size_t stride = 0;  // bytes
  int64_t count = 0;  // elements of one lane
  template <typename T>
  gpu::LaneSpan<T> span() const {
    return {reinterpret_cast<T*>(memory.data()), stride};
  }
};

class Bench {
 public:
  static StatusOr<Bench> On(GpuDevice& device, const MeasureOptions& options) {
    Bench bench(device, options);
    RIVULET_ASSIGN_OR_RETURN(bench.stream_, device.NewStream());
    RIVULET_ASSIGN_OR_RETURN(bench.list_,
                             device.Allocate(static_cast<size_t>(options.lanes) * sizeof(int32_t), "lanes"));
    // All of them, not in order.
    std::vector<int32_t> ids;
    for (int lane = options.lanes; lane-- > 0;) ids.push_back(lane);
    RIVULET_RETURN_IF_ERROR(bench.stream_->ToDevice(bench.list_.data(), ids.data(), ids.size() * sizeof(int32_t)));
    RIVULET_RETURN_IF_ERROR(bench.stream_->Wait());
    return bench;
  }
  GpuStream& stream() { return *stream_; }
  gpu::Lanes all() const { return {options_.lanes, nullptr}; }
  gpu::Lanes listed() const { return {options_.lanes, reinterpret_cast<const int32_t*>(list_.data())}; }

  // Numbers in [-1, 1), the same on every run; nothing where `seed` is 0.
  StatusOr<Lanes> New(int64_t count, uint32_t seed) {
    Lanes made;
    made.count = count;
    made.stride = (static_cast<size_t>(count) * sizeof(float) + 255) / 256 * 256;
    const auto lanes = static_cast<size_t>(options_.lanes);
    if (static_cast<int64_t>(made.stride / sizeof(float) * lanes) > options_.most_elements)
      return Unavailable("{} elements a lane are more than are measured here", count);
    RIVULET_ASSIGN_OR_RETURN(made.memory, device_->Allocate(made.stride * lanes, "a tensor"));
    if (seed == 0) return made;
    std::vector<float> values(made.stride / sizeof(float) * lanes);
    uint32_t state = seed;
    for (float& value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
    }
    RIVULET_RETURN_IF_ERROR(stream_->ToDevice(made.memory.data(), values.data(), values.size() * sizeof(float)));
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    return made;
  }

  // Memory for the sums of a product's chunks.
  StatusOr<Lanes> Partial(int64_t rows, int64_t columns, int64_t depth) {
    const gpu::DepthChunks chunks = gpu::ChunksFor(gpu::TileFor(DType::kFloat32, rows, columns), rows, columns, depth);
    return New(static_cast<int64_t>(gpu::PartialBytes(chunks, DType::kFloat32, rows, columns) / sizeof(float)), 0);
  }

  StatusOr<std::vector<float>> Read(const Lanes& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.count) * static_cast<size_t>(options_.lanes));
    for (size_t lane = 0; lane < static_cast<size_t>(options_.lanes); ++lane) {
      RIVULET_RETURN_IF_ERROR(stream_->ToHost(values.data() + lane * static_cast<size_t>(tensor.count),
                                              tensor.memory.data() + lane * tensor.stride,
                                              static_cast<size_t>(tensor.count) * sizeof(float)));
    }
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    return values;
  }

  // Of one launch, as graphs run it.
  StatusOr<double> Microseconds(const std::function<Status()>& launch) {
    RIVULET_RETURN_IF_ERROR(launch());  // what is made at first is made outside of the graph
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    RIVULET_RETURN_IF_ERROR(stream_->BeginCapture());
    Status launched;
    for (int i = 0; i < options_.times && launched.ok(); ++i) launched = launch();
    auto graph = stream_->EndCapture();
    RIVULET_RETURN_IF_ERROR(launched);
    RIVULET_RETURN_IF_ERROR(graph.status());
    RIVULET_RETURN_IF_ERROR(stream_->Launch(**graph));
    RIVULET_ASSIGN_OR_RETURN(const auto begin, device_->NewEvent());
    RIVULET_ASSIGN_OR_RETURN(const auto end, device_->NewEvent());
    RIVULET_RETURN_IF_ERROR(stream_->Record(*begin));
    RIVULET_RETURN_IF_ERROR(stream_->Launch(**graph));
    RIVULET_RETURN_IF_ERROR(stream_->Record(*end));
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    RIVULET_ASSIGN_OR_RETURN(const double milliseconds, end->MillisecondsSince(*begin));
    return 1000 * milliseconds / options_.times;
  }

 private:
  Bench(GpuDevice& device, const MeasureOptions& options) : device_(&device), options_(options) {}
  GpuDevice* device_;
  MeasureOptions options_;
  std::unique_ptr<GpuStream> stream_;
  GpuMemory list_;
};

// The largest difference, in parts of the largest element.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= most)) most = std::abs(a[i] - b[i]);
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  return std::isnan(most) ? std::numeric_limits<double>::infinity() : most / largest;
}

bool HasSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ProductBench {
 public:
  static StatusOr<Measured> Run(GpuDevice& device, const ProductArguments& shape, const MeasureOptions& options) {
    RIVULET_ASSIGN_OR_RETURN(Bench bench, Bench::On(device, options));
    ProductBench run(std::move(bench), shape);
    return run.Measure();
  }

 private:
  ProductBench(Bench bench, const ProductArguments& shape) : bench_(std::move(bench)), p_(shape) {}

  StatusOr<Measured> Measure() {
    const bool bias = p_.epilogue.bias.lane_stride != 0;
    RIVULET_ASSIGN_OR_RETURN(a_, bench_.New(int64_t{p_.rows} * p_.depth * p_.batches, 1));
    RIVULET_ASSIGN_OR_RETURN(b_, bench_.New(int64_t{p_.depth} * p_.columns * p_.batches, 2));
    RIVULET_ASSIGN_OR_RETURN(c_, bench_.New(int64_t{p_.rows} * p_.columns * p_.batches, 3));
    RIVULET_ASSIGN_OR_RETURN(bias_, bench_.New(p_.columns, 4));
    RIVULET_ASSIGN_OR_RETURN(partial_, bench_.Partial(p_.rows, p_.columns, p_.depth));
    p_.a = a_.span<const void>();
    p_.b = b_.span<const void>();
    p_.c = c_.span<void>();
    p_.epilogue.bias = bias ? bias_.span<const void>() : gpu::LaneSpan<const void>{};
    p_.chunks.partial = partial_.span<void>();
    p_.lanes = bench_.all();
    Measured measured;
    GpuContext context;
    context.stream = &bench_.stream();
    context.lanes = {p_.lanes.count, nullptr};
    const auto ours = [&] { return gpu::PutProduct(context, DType::kFloat32, p_); };
    RIVULET_ASSIGN_OR_RETURN(measured.ours_microseconds, bench_.Microseconds(ours));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> expected, bench_.Read(c_));
    if (p_.batches != 1 || p_.epilogue.activation == gpu::kRelu6) {
      measured.library = "never its";
      return measured;
    }
    gpu::LibraryAlgorithm found[kMostCandidates];
    int32_t count = 0;
    const Status asked = bench_.stream().Launch("library_candidates_float",
                                                gpu::LibraryCandidatesArguments{p_, found, kMostCandidates, &count});
    if (absl::IsNotFound(asked)) {
      measured.library = "none here";
      return measured;
    }
    RIVULET_RETURN_IF_ERROR(asked);
    int good = 0;
    for (int32_t i = 0; i < count; ++i) {
      const StatusOr<double> time = Try(found[i], expected);
      if (!time.ok()) continue;
      ++good;
      if (measured.library_microseconds && *measured.library_microseconds <= *time) continue;
      measured.library_microseconds = *time;
      measured.algorithm = found[i];
    }
    measured.library = fmt::format("{} of {} algorithms", good, count);
    return measured;
  }

  // Its time. FAILED_PRECONDITION: it cannot take the place of ours.
  StatusOr<double> Try(const gpu::LibraryAlgorithm& algorithm, const std::vector<float>& expected) {
    const auto launch = [&](const ProductArguments& p) {
      return bench_.stream().Launch("library_product_float", gpu::LibraryProductArguments{p, algorithm});
    };
    const auto result = [&](gpu::Lanes lanes) -> StatusOr<std::vector<float>> {
      ProductArguments p = p_;
      p.lanes = lanes;
      RIVULET_RETURN_IF_ERROR(bench_.stream().Fill(c_.memory.data(), 0xFF, c_.memory.size()));
      RIVULET_RETURN_IF_ERROR(launch(p));
      return bench_.Read(c_);
    };
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> together, result(bench_.all()));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> listed, result(bench_.listed()));
    RIVULET_ASSIGN_OR_RETURN(std::vector<float> alone, result({1, nullptr}));
    alone.resize(static_cast<size_t>(c_.count));
    const std::vector<float> first(together.begin(), together.begin() + c_.count);
    if (Difference(together, expected) > kRelativeError || !HasSameBits(together, listed) || !HasSameBits(first, alone))
      return FailedPrecondition("its bits hang on the lanes, or are others than ours");
    RIVULET_ASSIGN_OR_RETURN(const bool keeps, KeepsNan(launch));
    if (!keeps) return FailedPrecondition("what is no number becomes one");
    return bench_.Microseconds([&] { return launch(p_); });
  }

  // A lane that has gone wrong must be seen: NaN stays NaN, also through Relu.
  StatusOr<bool> KeepsNan(const std::function<Status(const ProductArguments&)>& launch) {
    float kept = 0;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    GpuStream& stream = bench_.stream();
    RIVULET_RETURN_IF_ERROR(stream.ToHost(&kept, a_.memory.data(), sizeof(kept)));
    RIVULET_RETURN_IF_ERROR(stream.Wait());
    RIVULET_RETURN_IF_ERROR(stream.ToDevice(a_.memory.data(), &nan, sizeof(nan)));
    RIVULET_RETURN_IF_ERROR(launch(p_));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> values, bench_.Read(c_));
    RIVULET_RETURN_IF_ERROR(stream.ToDevice(a_.memory.data(), &kept, sizeof(kept)));
    RIVULET_RETURN_IF_ERROR(stream.Wait());
    return std::isnan(values[0]);
  }

  Bench bench_;
  ProductArguments p_;
  Lanes a_, b_, c_, bias_, partial_;
};

std::string_view KernelOf(ConvolutionDirection direction) {
  switch (direction) {
    case ConvolutionDirection::kForward:
      return "convolution";
    case ConvolutionDirection::kInput:
      return "convolution_input";
    case ConvolutionDirection::kFilter:
      return "convolution_filter";
  }
  return "";
}

// By im2col, whose result is to be `expected`. Nothing of the image's gradient, which is a product and then a sum over
// windows, or where the patches are larger than the options allow.
StatusOr<std::optional<double>> MeasureIm2col(Bench& bench, const ConvolutionArguments& c,
                                              ConvolutionDirection direction, const Lanes& result,
                                              const std::vector<float>& expected) {
  if (direction == ConvolutionDirection::kInput) return std::nullopt;
  const bool forward = direction == ConvolutionDirection::kForward;
  const int32_t pixels = forward ? c.rows : c.depth, taps = forward ? c.depth : c.rows;
  StatusOr<Lanes> patches = bench.New(int64_t{pixels} * taps, 0);
  if (absl::IsUnavailable(patches.status())) return std::nullopt;
  RIVULET_RETURN_IF_ERROR(patches.status());
  const gpu::PatchesArguments unfold{{static_cast<const float*>(c.a.data), c.a.lane_stride},
                                     patches->span<float>(),
                                     pixels,
                                     taps,
                                     c.geometry,
                                     gpu::Divider::Of(taps),
                                     c.lanes};
  ProductArguments product = gpu::ProductOfMatrices(c.rows, c.columns, c.depth, !forward, false);
  product.a = patches->span<const void>();
  product.b = c.b;
  product.c = c.c;
  product.epilogue = c.epilogue;
  StatusOr<Lanes> partial = bench.Partial(c.rows, c.columns, c.depth);
  RIVULET_RETURN_IF_ERROR(partial.status());
  product.chunks.partial = partial->span<void>();
  product.lanes = c.lanes;
  GpuContext context;
  context.stream = &bench.stream();
  context.lanes = {c.lanes.count, nullptr};
  RIVULET_RETURN_IF_ERROR(bench.stream().Fill(result.memory.data(), 0xFF, result.memory.size()));
  RIVULET_ASSIGN_OR_RETURN(const double microseconds, bench.Microseconds([&]() -> Status {
    RIVULET_RETURN_IF_ERROR(bench.stream().Launch("patches_float", unfold));
    return gpu::PutProduct(context, DType::kFloat32, product);
  }));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<float> values, bench.Read(result));
  if (Difference(values, expected) <= kRelativeError) return microseconds;
  return Internal("im2col gives another result than the implicit product");
}

// Elements of the two factors.
std::pair<int64_t, int64_t> FactorsOf(const ConvolutionArguments& c, ConvolutionDirection direction) {
  const gpu::ConvolutionSizes s = gpu::ConvolutionSizesOf(c, direction);
  const int64_t image = s.batch * s.in_height * s.in_width * s.in, filter = s.taps() * s.out;
  const int64_t result = s.batch * s.out_height * s.out_width * s.out;
  switch (direction) {
    case ConvolutionDirection::kForward:
      return {image, filter};
    case ConvolutionDirection::kInput:
      return {result, filter};
    case ConvolutionDirection::kFilter:
      return {image, result};
  }
  return {};
}

}  // namespace

StatusOr<Measured> MeasureProduct(GpuDevice& device, const ProductArguments& shape, const MeasureOptions& options) {
  return ProductBench::Run(device, shape, options);
}

StatusOr<Measured> MeasureConvolution(GpuDevice& device, const ConvolutionArguments& shape,
                                      ConvolutionDirection direction, const MeasureOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(Bench bench, Bench::On(device, options));
  const auto [first, second] = FactorsOf(shape, direction);
  RIVULET_ASSIGN_OR_RETURN(const Lanes a, bench.New(first, 1));
  RIVULET_ASSIGN_OR_RETURN(const Lanes b, bench.New(second, 2));
  RIVULET_ASSIGN_OR_RETURN(const Lanes result, bench.New(int64_t{shape.rows} * shape.columns, 3));
  ConvolutionArguments c = shape;
  c.a = a.span<const void>();
  c.b = b.span<const void>();
  c.c = result.span<void>();
  c.lanes = bench.all();
  Measured measured;
  RIVULET_ASSIGN_OR_RETURN(const Lanes partial, bench.Partial(c.rows, c.columns, c.depth));
  c.chunks.partial = partial.span<void>();
  GpuContext context;
  context.stream = &bench.stream();
  context.lanes = {c.lanes.count, nullptr};
  RIVULET_ASSIGN_OR_RETURN(measured.ours_microseconds, bench.Microseconds([&] {
    return gpu::PutConvolution(context, KernelOf(direction), DType::kFloat32, c);
  }));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<float> expected, bench.Read(result));
  RIVULET_ASSIGN_OR_RETURN(measured.im2col_microseconds, MeasureIm2col(bench, c, direction, result, expected));
  return measured;
}

}  // namespace rivulet
