// A program on a device, for several lanes at once: the steps of the host's program (program.h) in the same order, each
// put into a stream. All its operands are in device memory, with a fixed stride between lanes.
//
//   CompileForGpu (engine/compile/compile.h) → GpuProgram → Instantiate(device) → Enqueue(…)*, stream.Wait()
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/gpu_kernel.h"
#include "engine/program/program.h"

namespace rivulet {

struct LoweredProgram;

struct GpuBindings {
  GpuOperand arena;                     // GpuProgram::arena_bytes() per lane
  std::span<const GpuOperand> buffers;  // as Bindings::buffers; stride 0: shared by all lanes, read-only
  std::span<const GpuOperand> feeds;    // in order of Signature::feeds, with the compiled shapes
  std::span<const GpuOperand> fetches;  // in order of Signature::fetches; also device memory
  GpuLanes lanes;
  GpuDraws draws;  // may be empty if the program draws nothing
  // For activity records (engine/gpu/gpu_activity.h): instruction i's work in the stream has the label first_label + i;
  // 0: no labels.
  uint64_t first_label = 0;
};

// For a single stream. Not thread-safe.
class GpuInstance {
 public:
  virtual ~GpuInstance() = default;
  // INVALID_ARGUMENT: bindings that do not fit the program; nothing was put into the stream. Errors of kernels are
  // returned by Wait. Between the stream's BeginCapture and EndCapture, the work becomes a graph.
  virtual Status Enqueue(GpuStream& stream, const GpuBindings& bindings) = 0;
};

// Immutable, shared by all threads.
class GpuProgram : public std::enable_shared_from_this<GpuProgram> {
 public:
  virtual ~GpuProgram() = default;
  virtual const Signature& signature() const = 0;
  virtual std::span<const TensorSpec> fetch_specs() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual size_t arena_bytes() const = 0;  // per lane, a multiple of 256
  virtual std::span<const Instruction> instructions() const = 0;
  virtual double flops() const = 0;  // per lane and run
  // By index in GpuBindings::buffers: buffers that a run accesses, and buffers that it may change.
  virtual const std::vector<bool>& uses_buffer() const = 0;
  virtual const std::vector<bool>& writes_buffer() const = 0;
  // Constants are copied to the device once for all its instances.
  virtual StatusOr<std::unique_ptr<GpuInstance>> Instantiate(GpuDevice& device) const = 0;
};

// Makes a program from the result of lowering for Device::kCuda. UNIMPLEMENTED: a program that runs functions or has
// lists, which only the host supports; names the node.
StatusOr<std::shared_ptr<const GpuProgram>> NewGpuProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                                          LoweredProgram lowered);

}  // namespace rivulet
