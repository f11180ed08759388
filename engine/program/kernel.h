// Kernels. A kernel is prepared once for a node with fully known shapes and run often. The result of Prepare is
// immutable and shared by all threads. All mutable memory (outputs, scratch) belongs to the caller and is planned
// before the first step.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/cancellation.h"
#include "engine/tensor/float16.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

enum class Device { kCpu, kCuda };
std::string_view Name(Device device);

// Decides between implementations; from a static table per CPU kind and never from timing, so that the same program
// always gives the same bits.
struct KernelPolicy {
  Device device = Device::kCpu;
  bool portable = false;  // own kernels only, no JIT library, results equal on unlike machines
};

// What a kernel keeps per Instance (argument objects of a library): made once, used by one thread.
class KernelState {
 public:
  virtual ~KernelState() = default;
};

class RunObserver;      // engine/program/run_observer.h
class TensorListStore;  // engine/program/tensor_list.h
struct PassOptions;     // engine/program/pass_options.h

// One Run, as kernels that run programs of their own (If, While, calls) hand it on.
struct RunContext {
  CancellationToken cancel;
  RunObserver* observer = nullptr;
  // Iterations that the loops of this run may still make in all; negative: no limit.
  int64_t loop_steps_left = -1;
  // When loops give up; max: never.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  TensorListStore* lists = nullptr;  // where this run's tensor lists lie
};

// What a running kernel may touch. Pointers are 64-byte aligned where the memory plan made them; variables start at 64
// bytes.
struct KernelContext {
  std::span<std::byte* const> inputs;  // in order of the node's non-resource inputs
  std::span<std::byte* const> outputs;
  std::span<std::byte* const> variables;  // the node's resource inputs, in order
  std::byte* scratch = nullptr;           // Prepared::scratch_bytes
  const StreamKey* rng = nullptr;         // of the lane
  uint64_t step = 0;                      // index of this Run, for random ops
  KernelState* state = nullptr;           // what NewState gave for this instance
  RunContext* run = nullptr;              // for kernels whose Prepared::nested says so
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // May fail on values that no shape tells (a label out of range): INVALID_ARGUMENT. Allocates nothing of ours.
  virtual Status Run(const KernelContext& context) const = 0;
  // A kernel that does `variable -= alpha · output 0` instead of writing output 0, with the bits of a
  // ResourceApplyGradientDescent afterwards; null where there is none. Its inputs are this kernel's and alpha after
  // them, variables[0] is the variable.
  virtual std::unique_ptr<const Kernel> FusedGradientDescent() const { return nullptr; }
  // Of a kernel that FusedGradientDescent gave: one that also writes what `input_gradient` would have written before
  // it, a product of the same output gradient with the weights as they were, in one walk over the weights and with the
  // same bits. Inputs and variables are this kernel's, output 0 is input_gradient's; null where there is none, or where
  // it would not pay.
  virtual std::unique_ptr<const Kernel> WithInputGradient(const Kernel& input_gradient) const {
    (void)input_gradient;
    return nullptr;
  }
  // Of a kernel that reads variables[0] element by element and writes all of it: one that reads the old value from its
  // last input, memory of the same size elsewhere, with the same bits; null where there is none.
  virtual std::unique_ptr<const Kernel> FromElsewhere() const { return nullptr; }
  // Most kernels need none. Called once per Instance.
  virtual std::unique_ptr<KernelState> NewState() const { return nullptr; }
};

struct Prepared {
  std::unique_ptr<const Kernel> kernel;
  size_t scratch_bytes = 0;
  // (input, output) pairs that may share memory: the kernel reads each element of the input before it writes the same
  // element of the output. Indices count non-resource inputs.
  std::vector<std::pair<int, int>> in_place;
  std::string implementation;  // for listings: "dnnl jit:avx512_core", "hwy", "eigen"
  double flops = 0;            // of one Run, for profiles and benchmarks
  bool nested = false;         // it runs programs of its own, and gets KernelContext::run, the stream and the step
};

// A node as its kernel sees it: fully known shapes.
struct NodeView {
  const Node& node;
  std::span<const TensorSpec> inputs;  // non-resource inputs
  std::span<const TensorSpec> outputs;
  std::span<const TensorSpec> variables;     // of the resource inputs
  std::span<const Tensor* const> constants;  // per non-resource input: its value where it is a compile-time constant
  int op_index = 0;                          // position among the random ops of the program's model (philox word "op")
  const Graph* graph = nullptr;              // where functions are found; null in tests of a single kernel
  const PassOptions* passes = nullptr;       // for programs of its own
  template <typename T>
  const T& attr(std::string_view name) const {
    return node.attr<T>(name);
  }
};

using PrepareFn = std::function<StatusOr<Prepared>(const NodeView&, const KernelPolicy&)>;

class KernelRegistry {
 public:
  static KernelRegistry& Global();
  void Register(std::string op, Device device, DType dtype, PrepareFn prepare, const char* file, int line);
  // `dtype` is that of attr "T" (or the op's one type attribute, in order of declaration), kInvalid for ops without
  // one; a kernel registered for kInvalid serves every dtype. UNIMPLEMENTED names op, device, dtype and what there is.
  StatusOr<const PrepareFn*> Find(std::string_view op, Device device, DType dtype) const;
  // A kernel registered for exactly this type, not for every type.
  bool IsRegisteredFor(std::string_view op, Device device, DType dtype) const;
  // Also true for the ops that a program carries out itself (engine/program/structural_ops.h).
  bool Has(std::string_view op, Device device) const;

 private:
  struct Entry {
    Device device;
    DType dtype;
    PrepareFn prepare;
    std::string registered_at;
  };
  std::unordered_map<std::string, std::vector<Entry>> entries_;
};

// A dtype attribute that chooses the kernel: "T", else the first type attribute of the op's definition, else kInvalid.
DType KernelDType(const Node& node);

namespace internal {
struct KernelRegistration {
  KernelRegistration(const char* op, Device device, DType dtype, PrepareFn prepare, const char* file, int line) {
    KernelRegistry::Global().Register(op, device, dtype, std::move(prepare), file, line);
  }
};
}  // namespace internal

// RIVULET_KERNEL("Relu", Device::kCpu, float, PrepareRelu<float>); `void` for ops whose kernel serves every dtype.
#define RIVULET_KERNEL(op, device, type, prepare) RIVULET_KERNEL_IMPL_(op, device, type, prepare, __COUNTER__)
#define RIVULET_KERNEL_IMPL_(op, device, type, prepare, counter) \
  RIVULET_KERNEL_IMPL2_(op, device, type, prepare, counter)
#define RIVULET_KERNEL_IMPL2_(op, device, type, prepare, counter)                                 \
  [[maybe_unused]] static const ::rivulet::internal::KernelRegistration rivulet_kernel_##counter( \
      op, device, ::rivulet::kDTypeOf<type>, prepare, __FILE__, __LINE__)

}  // namespace rivulet
