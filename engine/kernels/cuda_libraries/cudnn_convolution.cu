// Convolutions of every lane by cuDNN's graph API, one lane after the other. It knows filters as [out, height, width,
// in] beside images that are NHWC, so that filters are turned on the way there and back.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/library_convolution.h"
#include "engine/kernels/cuda_libraries/cudnn_library.h"

namespace rivulet::gpu {
namespace {

constexpr int kNotThere = static_cast<int>(cudaErrorSharedObjectInitFailed);
constexpr int kNotSupported = static_cast<int>(cudaErrorNotSupported);
constexpr int64_t kImage = 1, kFilter = 2, kResult = 3;  // names of tensors in a graph

// [taps, out], taps of (row, column, in), and [out, taps]: from the one to the other.
__global__ void TurnFilter(const float* from, float* to, int32_t rows, int32_t columns) {
  const int64_t count = int64_t{rows} * columns;
  for (int64_t i = FirstElement(); i < count; i += ElementStride()) to[i % columns * rows + i / columns] = from[i];
}

// NCHW by name, NHWC in memory.
CudnnDescriptor TensorOf(const Cudnn& cudnn, int64_t name, int64_t n, int64_t c, int64_t h, int64_t w) {
  CudnnDescriptor tensor(cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector<int64_t>{n, c, h, w});
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>{h * w * c, 1, w * c, c});
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<int64_t>{name});
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector<int64_t>{16});
  tensor.Finalize();
  return tensor;
}

CudnnDescriptor WindowOf(const Cudnn& cudnn, const ConvolutionGeometry& g, const ConvolutionSizes& s) {
  const int64_t down = g.stride_height.divisor, across = g.stride_width.divisor;
  CudnnDescriptor window(cudnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
  window.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector{CUDNN_CROSS_CORRELATION});
  window.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::vector<int64_t>{2});
  window.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, std::vector<int64_t>{g.pad_top, g.pad_left});
  window.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
             std::vector<int64_t>{PaddingBehind(s.out_height, down, s.height, g.step_height, s.in_height, g.pad_top),
                                  PaddingBehind(s.out_width, across, s.width, g.step_width, s.in_width, g.pad_left)});
  window.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, std::vector<int64_t>{g.step_height, g.step_width});
  window.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>{down, across});
  window.Finalize();
  return window;
}

// What the three directions call their parts.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t window, image, filter, result, alpha, beta;
};
Names NamesOf(ConvolutionDirection direction) {
  switch (direction) {
    case ConvolutionDirection::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionDirection::kInput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionDirection::kFilter:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

// One convolution's plans, made outside of captures.
class Plans {
 public:
  // Null: cuDNN refuses it.
  static std::unique_ptr<Plans> Of(const Cudnn& cudnn, const LibraryConvolutionArguments& a, bool tf32) {
    auto made = std::unique_ptr<Plans>(new Plans(cudnn, ConvolutionSizesOf(a.convolution, a.direction)));
    return made->Build(a, tf32) ? std::move(made) : nullptr;
  }
  int count() const { return static_cast<int>(plans_.size()); }

  int Run(const LibraryConvolutionArguments& a, cudaStream_t stream) {
    const ConvolutionArguments& c = a.convolution;
    if (cudnn_.set_stream(handle_, stream) != CUDNN_STATUS_SUCCESS) return kNotSupported;
    const bool forward = a.direction == ConvolutionDirection::kForward;
    for (int lane = 0; lane < c.lanes.count; ++lane) {
      const auto *first = static_cast<const float*>(c.a.of(lane)), *second = static_cast<const float*>(c.b.of(lane));
      auto* const to = static_cast<float*>(c.c.of(lane));
      const auto taps = static_cast<int32_t>(s_.taps()), out = static_cast<int32_t>(s_.out);
      const Grid grid = GridOver(int64_t{taps} * out, c.lanes);
      int error = 0;
      if (a.direction == ConvolutionDirection::kFilter) {
        error = Execute(a.candidate, first, filter_, second);
        TurnFilter<<<grid.x, grid.threads, 0, stream>>>(filter_, to, out, taps);
      } else {
        TurnFilter<<<grid.x, grid.threads, 0, stream>>>(second, filter_, taps, out);
        error = forward ? Execute(a.candidate, first, filter_, to) : Execute(a.candidate, to, filter_, first);
      }
      if (error != 0) return error;
      if (const cudaError_t last = cudaGetLastError(); last != cudaSuccess) return static_cast<int>(last);
    }
    return 0;
  }

 private:
  struct Plan {
    CudnnDescriptor plan;
    size_t workspace_bytes;
  };

  Plans(const Cudnn& cudnn, const ConvolutionSizes& sizes) : cudnn_(cudnn), s_(sizes) {}

  bool Build(const LibraryConvolutionArguments& a, bool tf32) {
    if (cudnn_.create(&handle_) != CUDNN_STATUS_SUCCESS) return false;
    const CudnnDescriptor image = TensorOf(cudnn_, kImage, s_.batch, s_.in, s_.in_height, s_.in_width);
    const CudnnDescriptor filter = TensorOf(cudnn_, kFilter, s_.out, s_.in, s_.height, s_.width);
    const CudnnDescriptor result = TensorOf(cudnn_, kResult, s_.batch, s_.out, s_.out_height, s_.out_width);
    const CudnnDescriptor window = WindowOf(cudnn_, a.convolution.geometry, s_);
    const Names names = NamesOf(a.direction);
    CudnnDescriptor operation(cudnn_, names.operation);
    operation.Set(names.window, window);
    operation.Set(names.image, image);
    operation.Set(names.filter, filter);
    operation.Set(names.result, result);
    operation.Set(names.alpha, CUDNN_TYPE_FLOAT, std::vector{1.0f});
    operation.Set(names.beta, CUDNN_TYPE_FLOAT, std::vector{0.0f});
    operation.Finalize();
    CudnnDescriptor graph(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_});
    graph.Finalize();
    CudnnDescriptor heuristic(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A});
    heuristic.Finalize();
    return heuristic.good() && TakePlans(heuristic, tf32) && TakeMemory();
  }

  bool TakePlans(const CudnnDescriptor& heuristic, bool tf32) {
    constexpr int64_t kMost = 16;
    std::vector<CudnnDescriptor> configs;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < kMost; ++i) {
      configs.emplace_back(cudnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      raw.push_back(configs.back().raw());
    }
    int64_t found = 0;
    if (cudnn_.get(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMost, &found,
                   raw.data()) != CUDNN_STATUS_SUCCESS)
      return false;
    for (size_t i = 0; i < static_cast<size_t>(std::min(found, kMost)); ++i) {
      if (!MayTake(configs[i], tf32)) continue;
      CudnnDescriptor plan(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_});
      plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
      plan.Finalize();
      int64_t bytes = 0, count = 0;
      if (!plan.good() || cudnn_.get(plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                     &bytes) != CUDNN_STATUS_SUCCESS)
        continue;
      plans_.push_back({std::move(plan), static_cast<size_t>(bytes)});
    }
    return true;
  }

  // The same bits in every run, and float32 without rounded factors where those are not asked for.
  bool MayTake(const CudnnDescriptor& config, bool tf32) const {
    const CudnnDescriptor engine(cudnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.raw();
    int64_t count = 0;
    if (cudnn_.get(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw) !=
        CUDNN_STATUS_SUCCESS)
      return false;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    if (cudnn_.get(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                   &count, notes) != CUDNN_STATUS_SUCCESS)
      return false;
    for (int64_t i = 0; i < count; ++i) {
      if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
      if (!tf32 &&
          (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
        return false;
    }
    return true;
  }

  bool TakeMemory() {
    size_t workspace = 1;
    for (const Plan& plan : plans_) workspace = std::max(workspace, plan.workspace_bytes);
    void *turned = nullptr, *work = nullptr;
    const auto bytes = static_cast<size_t>(s_.taps() * s_.out) * sizeof(float);
    if (cudaMalloc(&turned, bytes) != cudaSuccess || cudaMalloc(&work, workspace) != cudaSuccess) return false;
    filter_ = static_cast<float*>(turned);
    workspace_ = work;
    return true;
  }

  int Execute(int candidate, const float* image, const float* filter, const float* result) {
    if (candidate < 0 || candidate >= count()) return kNotSupported;
    CudnnDescriptor pack(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::vector<const void*>{image, filter, result});
    pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::vector<int64_t>{kImage, kFilter, kResult});
    pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector<void*>{workspace_});
    pack.Finalize();
    const Plan& plan = plans_[static_cast<size_t>(candidate)];
    if (!pack.good() || cudnn_.execute(handle_, plan.plan.raw(), pack.raw()) != CUDNN_STATUS_SUCCESS)
      return kNotSupported;
    return 0;
  }

  const Cudnn& cudnn_;
  const ConvolutionSizes s_;
  cudnnHandle_t handle_ = nullptr;
  std::vector<Plan> plans_;
  float* filter_ = nullptr;
  void* workspace_ = nullptr;  // one at a time uses it
};

// By what a convolution is, without where its tensors lie.
Plans* PlansOf(const Cudnn& cudnn, const LibraryConvolutionArguments& a, bool tf32) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Plans>> known;
  const ConvolutionArguments& c = a.convolution;
  std::string key(reinterpret_cast<const char*>(&c.geometry), sizeof(c.geometry));
  for (const int32_t number : {static_cast<int32_t>(a.direction), c.rows, c.columns, c.depth, tf32 ? 1 : 0})
    key.append(reinterpret_cast<const char*>(&number), sizeof(number));
  const std::lock_guard lock(mutex);
  const auto [found, added] = known.try_emplace(std::move(key));
  if (added) found->second = Plans::Of(cudnn, a, tf32);
  return found->second.get();
}

template <bool kTf32>
int LaunchConvolution(void* stream, const void* arguments) {
  const auto& a = *static_cast<const LibraryConvolutionArguments*>(arguments);
  const Cudnn* const cudnn = OpenCudnn();
  if (cudnn == nullptr) return kNotThere;
  Plans* const plans = PlansOf(*cudnn, a, kTf32);
  if (a.candidates != nullptr) {
    *a.candidates = plans == nullptr ? 0 : plans->count();
    return 0;
  }
  if (plans == nullptr || a.convolution.lanes.ids != nullptr) return kNotSupported;
  return plans->Run(a, static_cast<cudaStream_t>(stream));
}

const KernelList convolution_float("library_convolution_float", sizeof(LibraryConvolutionArguments),
                                   LaunchConvolution<false>);
const KernelList convolution_tf32("library_convolution_tf32", sizeof(LibraryConvolutionArguments),
                                  LaunchConvolution<true>);

}  // namespace
}  // namespace rivulet::gpu
