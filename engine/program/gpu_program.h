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
  GpuOperand arena;                     // GpuProgram::arena_bytes() a lane
  std::span<const GpuOperand> buffers;  // as Bindings::buffers; stride 0: all lanes share it, and none may write it
  std::span<const GpuOperand> feeds;    // in order of Signature::feeds, of the shapes compiled for
  std::span<const GpuOperand> fetches;  // in order of Signature::fetches; device memory as well
  GpuLanes lanes;
  GpuDraws draws;  // may be empty where the program draws nothing
  // Of records (engine/gpu/gpu_activity.h): what instruction i puts into the stream bears first_label + i; 0: no
  // labels.
  uint64_t first_label = 0;
};

// One stream's. Not thread-safe.
class GpuInstance {
 public:
  virtual ~GpuInstance() = default;
  // INVALID_ARGUMENT: bindings that do not fit the program, before anything was put into the stream. The errors of
  // kernels are Wait's. Between BeginCapture and EndCapture of the stream this is what becomes a graph.
  virtual Status Enqueue(GpuStream& stream, const GpuBindings& bindings) = 0;
};

// Immutable, shared by all threads.
class GpuProgram : public std::enable_shared_from_this<GpuProgram> {
 public:
  virtual ~GpuProgram() = default;
  virtual const Signature& signature() const = 0;
  virtual std::span<const TensorSpec> fetch_specs() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual size_t arena_bytes() const = 0;  // of one lane, a multiple of 256
  virtual std::span<const Instruction> instructions() const = 0;
  virtual double flops() const = 0;  // of one lane's run
  // By index in GpuBindings::buffers: what a run touches, and what it may change.
  virtual const std::vector<bool>& uses_buffer() const = 0;
  virtual const std::vector<bool>& writes_buffer() const = 0;
  // The constants are brought to the device once for all its instances.
  virtual StatusOr<std::unique_ptr<GpuInstance>> Instantiate(GpuDevice& device) const = 0;
};

// Of what was lowered for Device::kCuda. UNIMPLEMENTED, naming it: a program that runs functions of its own or keeps
// lists, which only the host does.
StatusOr<std::shared_ptr<const GpuProgram>> NewGpuProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                                          LoweredProgram lowered);

}  // namespace rivulet
