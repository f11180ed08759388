// Products of every lane by cuBLASLt, with the given algorithm.
//
// Lanes 0, 1, … are a strided batch, with bias and activation as epilogue. A list of lanes is a batch of pointers,
// which a kernel computes from the list on the device. Such batches have no bias; a kernel of Rivulet's then adds it.
// Both sum alike: the algorithm is the same one, and an epilogue starts with the finished sum.
#include <map>
#include <mutex>
#include <utility>

#include "engine/gpu/gpu_api.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/library_product.h"
#include "engine/kernels/cuda/product_result.h"
#include "engine/kernels/cuda_libraries/cublaslt_library.h"

namespace rivulet::gpu {
namespace {

constexpr int kNotThere = RIVULET_GPU_NOT_THERE;
constexpr int kMostListed = 65535;  // maximum depth of grids

int ErrorOf(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS ? 0 : static_cast<int>(cudaErrorUnknown); }

// State per device and stream, created outside of captures, in the first run of a step.
struct Workplace {
  cublasLtHandle_t handle = nullptr;
  const void** pointers = nullptr;  // three lists of kMostListed
};

int WorkplaceOf(cudaStream_t stream, Workplace** workplace) {
  static std::mutex mutex;
  static std::map<std::pair<int, cudaStream_t>, Workplace> workplaces;
  const std::lock_guard lock(mutex);
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return static_cast<int>(error);
  Workplace& found = workplaces[{device, stream}];
  if (found.handle == nullptr) {
    if (const int error = ErrorOf(OpenCublasLt()->create(&found.handle)); error != 0) return error;
  }
  if (found.pointers == nullptr) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, 3 * kMostListed * sizeof(void*));
    if (error != cudaSuccess) return static_cast<int>(error);
    found.pointers = static_cast<const void**>(memory);
  }
  *workplace = &found;
  return 0;
}

struct PointersArguments {
  ProductArguments product;
  const void** pointers;
};
__global__ void MakePointers(PointersArguments a) {
  const ProductArguments& p = a.product;
  for (int64_t i = FirstElement(); i < p.lanes.count; i += ElementStride()) {
    const int lane = p.lanes.Number(static_cast<uint32_t>(i));
    a.pointers[i] = p.b.of(lane);
    a.pointers[kMostListed + i] = p.a.of(lane);
    a.pointers[2 * kMostListed + i] = p.c.of(lane);
  }
}

__global__ void FinishProduct(ProductArguments p) {
  const int lane = p.lanes.Number(blockIdx.z);
  const float* bias = p.epilogue.bias.data == nullptr ? nullptr : static_cast<const float*>(p.epilogue.bias.of(lane));
  float* c = static_cast<float*>(p.c.of(lane));
  const int64_t count = int64_t{p.rows} * p.columns;
  for (int64_t i = FirstElement(); i < count; i += ElementStride())
    c[i] = Finished(c[i], bias, static_cast<int>(i % p.columns), p.epilogue.activation);
}

cublasComputeType_t ComputeOf(bool tf32) { return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F; }

// cuBLASLt's description of a product.
class Description {
 public:
  Description(const CublasLt& lt, const ProductArguments& p, bool tf32) : lt_(lt), p_(p) {
    const LibraryMatrices m = LibraryMatricesOf(p);
    Keep(lt.desc_create(&desc_, ComputeOf(tf32), CUDA_R_32F));
    Set(CUBLASLT_MATMUL_DESC_TRANSA, OperationOf(m.first));
    Set(CUBLASLT_MATMUL_DESC_TRANSB, OperationOf(m.second));
    Layout(first_, m.first);
    Layout(second_, m.second);
    Layout(result_, m.result);
    if (p.lanes.ids == nullptr) Epilogue();
  }
  ~Description() {
    for (const cublasLtMatrixLayout_t layout : {first_, second_, result_})
      if (layout != nullptr) lt_.layout_destroy(layout);
    if (desc_ != nullptr) lt_.desc_destroy(desc_);
  }
  int error() const { return error_; }

  int Run(const Workplace& workplace, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
    const float one = 1, zero = 0;
    const bool listed = p_.lanes.ids != nullptr;
    const void *b = p_.b.data, *a = p_.a.data;
    void* c = p_.c.data;
    if (listed) {
      b = workplace.pointers;
      a = workplace.pointers + kMostListed;
      c = workplace.pointers + 2 * kMostListed;
    }
    return ErrorOf(lt_.matmul(workplace.handle, desc_, &one, b, first_, a, second_, &zero, c, result_, c, result_,
                              &algorithm, nullptr, 0, stream));
  }

  // The library's suggestions without a workspace.
  int Ask(cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t* results, int most, int* count) {
    cublasLtMatmulPreference_t preference = nullptr;
    Keep(lt_.preference_create(&preference));
    const uint64_t workspace = 0;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    Keep(lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)));
    Keep(lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)));
    if (error_ == 0)
      Keep(lt_.heuristic(handle, desc_, first_, second_, result_, result_, preference, most, results, count));
    if (preference != nullptr) lt_.preference_destroy(preference);
    return error_;
  }

 private:
  void Keep(cublasStatus_t status) {
    if (error_ == 0) error_ = ErrorOf(status);
  }
  template <typename Value>
  void Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    if (error_ == 0) Keep(lt_.desc_set(desc_, attribute, &value, sizeof(value)));
  }
  template <typename Value>
  void Set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
    if (error_ == 0) Keep(lt_.layout_set(layout, attribute, &value, sizeof(value)));
  }
  static cublasOperation_t OperationOf(const LibraryMatrix& matrix) {
    return matrix.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  }
  void Layout(cublasLtMatrixLayout_t& layout, const LibraryMatrix& matrix) {
    Keep(lt_.layout_create(&layout, CUDA_R_32F, static_cast<uint64_t>(matrix.rows),
                           static_cast<uint64_t>(matrix.columns), matrix.rows));
    Set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{p_.lanes.count});
    if (p_.lanes.ids != nullptr) {
      Set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, static_cast<uint32_t>(CUBLASLT_BATCH_MODE_POINTER_ARRAY));
    } else {
      Set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.lane_stride);
    }
  }
  void Epilogue() {
    const bool bias = p_.epilogue.bias.data != nullptr, relu = p_.epilogue.activation == kRelu;
    if (bias) {
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(p_.epilogue.bias.data));
      Set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, static_cast<int64_t>(p_.epilogue.bias.lane_stride / sizeof(float)));
    }
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias && relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                       : bias       ? CUBLASLT_EPILOGUE_BIAS
                                       : relu       ? CUBLASLT_EPILOGUE_RELU
                                                    : CUBLASLT_EPILOGUE_DEFAULT);
  }

  const CublasLt& lt_;
  const ProductArguments& p_;
  int error_ = 0;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
};

int AlgorithmOf(const CublasLt& lt, cublasLtHandle_t handle, const LibraryAlgorithm& from, bool tf32,
                cublasLtMatmulAlgo_t& algorithm) {
  int error = ErrorOf(lt.algo_init(handle, ComputeOf(tf32), CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                   from.id, &algorithm));
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    if (error == 0) error = ErrorOf(lt.config_set(&algorithm, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<uint32_t>(from.tile));
  set(CUBLASLT_ALGO_CONFIG_STAGES_ID, static_cast<uint32_t>(from.stages));
  set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t{1});
  set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, static_cast<uint32_t>(from.swizzling));
  set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, static_cast<uint32_t>(from.custom));
  set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, static_cast<uint16_t>(from.inner_shape));
  set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<uint16_t>(from.cluster_shape));
  return error;
}

// Returns false for an algorithm that splits the depth, or does not support batches of pointers.
bool ReadAlgorithm(const CublasLt& lt, const cublasLtMatmulAlgo_t& from, LibraryAlgorithm& to) {
  bool good = true;
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    size_t written = 0;
    good = lt.config_get(&from, attribute, &value, sizeof(value), &written) == CUBLAS_STATUS_SUCCESS && good;
    return static_cast<int32_t>(value);
  };
  to.id = get(CUBLASLT_ALGO_CONFIG_ID, int32_t{});
  to.tile = get(CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t{});
  to.stages = get(CUBLASLT_ALGO_CONFIG_STAGES_ID, uint32_t{});
  to.swizzling = get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, uint32_t{});
  to.custom = get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, uint32_t{});
  to.inner_shape = get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, uint16_t{});
  to.cluster_shape = get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, uint16_t{});
  const int32_t splits = get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t{});
  int32_t pointers = 0;
  size_t written = 0;
  good = lt.cap_get(&from, CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT, &pointers, sizeof(pointers), &written) ==
             CUBLAS_STATUS_SUCCESS &&
         good;
  return good && splits <= 1 && pointers != 0;
}

template <bool kTf32>
int LaunchProduct(void* stream, const void* arguments) {
  const auto& a = *static_cast<const LibraryProductArguments*>(arguments);
  const CublasLt* const lt = OpenCublasLt();
  if (lt == nullptr) return kNotThere;
  const auto on = static_cast<cudaStream_t>(stream);
  Workplace* workplace = nullptr;
  if (const int error = WorkplaceOf(on, &workplace); error != 0) return error;
  cublasLtMatmulAlgo_t algorithm;
  // Another version of the library may have other algorithms.
  if (AlgorithmOf(*lt, workplace->handle, a.algorithm, kTf32, algorithm) != 0) return kNotThere;
  const bool listed = a.product.lanes.ids != nullptr;
  if (listed) {
    MakePointers<<<1, 256, 0, on>>>({a.product, workplace->pointers});
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return static_cast<int>(error);
  }
  Description description(*lt, a.product, kTf32);
  if (description.error() != 0) return description.error();
  if (const int error = description.Run(*workplace, algorithm, on); error != 0) return error;
  const bool finish = a.product.epilogue.bias.data != nullptr || a.product.epilogue.activation != kNoActivation;
  if (!listed || !finish) return 0;
  const Grid grid = GridOver(int64_t{a.product.rows} * a.product.columns, a.product.lanes);
  FinishProduct<<<dim3(grid.x, grid.y, grid.z), grid.threads, 0, on>>>(a.product);
  return static_cast<int>(cudaGetLastError());
}

template <bool kTf32>
int TellCandidates(void* stream, const void* arguments) {
  const auto& a = *static_cast<const LibraryCandidatesArguments*>(arguments);
  *a.count = 0;
  const CublasLt* const lt = OpenCublasLt();
  if (lt == nullptr) return kNotThere;
  Workplace* workplace = nullptr;
  if (const int error = WorkplaceOf(static_cast<cudaStream_t>(stream), &workplace); error != 0) return error;
  constexpr int kMost = 32;
  cublasLtMatmulHeuristicResult_t results[kMost];
  int found = 0;
  Description description(*lt, a.product, kTf32);
  if (const int error = description.Ask(workplace->handle, results, kMost, &found); error != 0) return error;
  for (int i = 0; i < found && *a.count < a.most; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS && ReadAlgorithm(*lt, results[i].algo, a.found[*a.count])) ++*a.count;
  }
  return 0;
}

const KernelList product_float("library_product_float", sizeof(LibraryProductArguments), LaunchProduct<false>);
const KernelList product_tf32("library_product_tf32", sizeof(LibraryProductArguments), LaunchProduct<true>);
const KernelList candidates_float("library_candidates_float", sizeof(LibraryCandidatesArguments),
                                  TellCandidates<false>);
const KernelList candidates_tf32("library_candidates_tf32", sizeof(LibraryCandidatesArguments), TellCandidates<true>);

}  // namespace
}  // namespace rivulet::gpu
