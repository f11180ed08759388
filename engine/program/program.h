// A compiled program: pruned, shape-inferred, memory-planned and bound to kernels once per (graph, batch shape,
// device), then run many times. A Program is immutable, has offsets but no addresses, and is shared by all threads.
// Each thread owns an Instance. A run of an instance allocates no memory of Rivulet's, takes no lock and does no
// lookup.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/cancellation.h"
#include "engine/program/kernel.h"
#include "engine/program/pass_options.h"
#include "engine/program/run_observer.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Memory of a variable: VarHandleOp's shared_name (its node name if that is empty) → a slice of a bound buffer. Two
// variables may overlap (a flat view "params" and the slices of its tensors): the program orders and copies so that
// every read sees the value that program order requires.
struct VariableBinding {
  std::string name;
  int buffer = 0;     // index into Bindings::buffers
  size_t offset = 0;  // bytes, a multiple of 64
  TensorSpec spec;    // fully known
  // Its value is not read after a run: a pass may remove writes to it that the run itself does not read.
  bool transient = false;
};

// A buffer whose first `bytes` equal another buffer's at the start of a run. A run may compute from the other buffer
// the parts that it writes completely, and copy only the rest: so a step that changes all weights needs no separate
// pass to copy them.
struct BufferCopy {
  int to = 0, from = 0;  // indices into Bindings::buffers, of disjoint memory
  size_t bytes = 0;
};

struct FeedSpec {
  std::string tensor;  // "image" or "image:0": a placeholder, or any tensor to replace
  TensorSpec spec;     // fully known: the batch shape of this program
};

// The inputs, outputs and variables of a program. Fetches and targets are tensor and node names.
struct Signature {
  std::vector<FeedSpec> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;  // nodes that run for their side effects
  std::vector<VariableBinding> variables;
  std::vector<BufferCopy> copies;  // before anything else; the run must not write any `from`
};

struct CompileOptions {
  KernelPolicy kernels;
  PassOptions passes;
};

struct Buffer {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t lane_stride = 0;  // elements between lanes; unused on a CPU
};

struct Bindings {
  std::byte* arena = nullptr;           // MemoryPlan::arena_bytes, 64-byte aligned; contents are lost between runs
  std::span<const Buffer> buffers;      // params, grads, slots, base_params, broadcast[], client_state[]
  std::span<const TensorView> feeds;    // in order of Signature::feeds, with the compiled shapes
  std::span<const TensorView> fetches;  // results, in the caller's memory; in order of Signature::fetches
  int lanes = 1;
  std::span<const StreamKey> rng;   // one per lane; may be empty if the program draws nothing
  std::span<const uint64_t> step;   // one per lane
  RunObserver* observer = nullptr;  // observes this run; null costs nothing
  // Limits of loops: iterations of all loops of this run together (negative: none), and a deadline. RESOURCE_EXHAUSTED
  // and DEADLINE_EXCEEDED name the loop.
  int64_t max_loop_steps = -1;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  RunContext* outer = nullptr;  // if this run is part of another: its observer and limits apply
};

// A range of the arena: an output of an instruction, or the scratch memory of its kernel.
struct PlannedTensor {
  int instruction = 0;  // that writes it
  int output = 0;       // index of its output, or -1: scratch
  size_t bytes = 0;
  size_t offset = 0;               // in the arena
  int first = 0, last = 0;         // instructions, both inclusive, between which the bytes are used
  bool continues_another = false;  // written over an input in place; its bytes are counted there
};

struct MemoryPlan {
  size_t arena_bytes = 0;              // peak of the reused arena, including kernel scratch
  size_t constant_bytes = 0;           // owned by the Program
  size_t unshared_bytes = 0;           // size of the arena without reuse, for listings
  std::vector<PlannedTensor> tensors;  // contents of the arena, in order of instructions
};

struct Instruction {  // for listings and profiles
  std::string node;
  std::string op;
  std::string implementation;
  double flops = 0;
  std::vector<TensorSpec> outputs;  // empty for instructions that only change variables
  // Ordered as KernelContext::inputs. A view of another tensor's memory (a Reshape) has that tensor's name and shape;
  // inputs added by a fusion have no name.
  std::vector<std::string> input_names;
  std::vector<TensorSpec> inputs;
  std::vector<std::string> variables;  // in order of KernelContext::variables
  std::string source_line;             // "file.cc:12" of the code that built the node, or ""
  // New bytes of the arena for outputs and scratch; 0 for calls that work in place or write elsewhere.
  size_t arena_bytes = 0;
};

class Instance;

// Created by CompileProgram (engine/compile/compile.h).
class Program : public std::enable_shared_from_this<Program> {
 public:
  virtual ~Program() = default;
  virtual const Signature& signature() const = 0;
  virtual std::span<const TensorSpec> fetch_specs() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual std::span<const Instruction> instructions() const = 0;
  virtual double flops() const = 0;  // per run, as far as kernels report them
  virtual StatusOr<std::unique_ptr<Instance>> Instantiate() const = 0;
};

// For a single thread, which must run with one OpenMP thread (EnterWorkerThread()). Not thread-safe.
class Instance {
 public:
  virtual ~Instance() = default;
  // Errors of kernels contain the node's name. A failed run may have written some variables.
  virtual Status Run(const Bindings& bindings, const CancellationToken& cancel = {}) = 0;
};

// Call once at the start of every thread that compiles or runs programs: sets one OpenMP thread, round-to-nearest, and
// flushing of denormals to zero, so that results do not depend on the thread.
void EnterWorkerThread();

}  // namespace rivulet
