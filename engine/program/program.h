// A compiled program: pruned, shape-inferred, memory-planned and bound to kernels once per (graph, batch shape,
// device), then run many times. A Program is immutable, holds offsets and never addresses, and is shared by all
// threads. Each thread owns an Instance. A run of an instance allocates none of our memory, takes no lock and does no
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

// Where a variable lives: VarHandleOp's shared_name (its node name when that is empty) → a slice of a bound buffer. Two
// variables may overlap (a flat view "params" and the slices of its tensors): the program orders and copies so that
// every read sees what program order says.
struct VariableBinding {
  std::string name;
  int buffer = 0;     // index into Bindings::buffers
  size_t offset = 0;  // bytes, a multiple of 64
  TensorSpec spec;    // fully known
  // What a run leaves in it is read by nobody: a pass may leave out writes to it that the run itself does not read.
  bool transient = false;
};

// A buffer that a run begins by making equal to another: its first `bytes`. What the run itself writes whole it may
// make from the other buffer, and copy only the rest: so a step that moves all weights costs no pass over them to copy
// them.
struct BufferCopy {
  int to = 0, from = 0;  // indices into Bindings::buffers; of memory that does not overlap
  size_t bytes = 0;
};

struct FeedSpec {
  std::string tensor;  // "image" or "image:0": a placeholder, or any tensor that the feed replaces
  TensorSpec spec;     // fully known: the batch shape of this program
};

// What a program computes. Fetches and targets are tensor and node names.
struct Signature {
  std::vector<FeedSpec> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;  // nodes run for their effect
  std::vector<VariableBinding> variables;
  std::vector<BufferCopy> copies;  // before anything else; none of their `from` is written by the run
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
  std::byte* arena = nullptr;           // MemoryPlan::arena_bytes, 64-byte aligned; contents do not survive a Run
  std::span<const Buffer> buffers;      // params, grads, slots, base_params, broadcast[], client_state[]
  std::span<const TensorView> feeds;    // in order of Signature::feeds; shapes as compiled
  std::span<const TensorView> fetches;  // written; the caller's memory, in order of Signature::fetches
  int lanes = 1;
  std::span<const StreamKey> rng;   // one per lane; may be empty when the program draws nothing
  std::span<const uint64_t> step;   // one per lane
  RunObserver* observer = nullptr;  // watches this run; without one nothing is spent on it
  // What loops may cost: iterations of all loops of this run together (negative: no limit), and until when.
  // RESOURCE_EXHAUSTED and DEADLINE_EXCEEDED name the loop.
  int64_t max_loop_steps = -1;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  RunContext* outer = nullptr;  // of the run that this one is part of; its observer and limits hold then
};

// One stretch of the arena: an output of an instruction, or the scratch memory of its kernel.
struct PlannedTensor {
  int instruction = 0;  // that makes it
  int output = 0;       // of that instruction, or -1: scratch
  size_t bytes = 0;
  size_t offset = 0;               // in the arena
  int first = 0, last = 0;         // instructions, both inclusive, between which these bytes are taken
  bool continues_another = false;  // written over an input in place: the bytes are counted there
};

struct MemoryPlan {
  size_t arena_bytes = 0;              // peak of the reused arena, kernel scratch included
  size_t constant_bytes = 0;           // held by the Program itself
  size_t unshared_bytes = 0;           // what the arena would need without reuse, for listings
  std::vector<PlannedTensor> tensors;  // what lies in the arena, in order of instructions
};

struct Instruction {  // for listings and profiles
  std::string node;
  std::string op;
  std::string implementation;
  double flops = 0;
  std::vector<TensorSpec> outputs;  // empty for what changes variables alone
  // In order of KernelContext::inputs. A view of another tensor's memory (a Reshape) goes by that tensor's name and
  // shape; what a fusion added has no name.
  std::vector<std::string> input_names;
  std::vector<TensorSpec> inputs;
  std::vector<std::string> variables;  // in order of KernelContext::variables
  std::string source_line;             // "file.cc:12" of the code that built the node, or ""
  // New bytes of the arena for outputs and scratch; 0 where a call works in place or writes elsewhere.
  size_t arena_bytes = 0;
};

class Instance;

// Made by CompileProgram (engine/compile/compile.h).
class Program : public std::enable_shared_from_this<Program> {
 public:
  virtual ~Program() = default;
  virtual const Signature& signature() const = 0;
  virtual std::span<const TensorSpec> fetch_specs() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual std::span<const Instruction> instructions() const = 0;
  virtual double flops() const = 0;  // of one Run, as far as kernels tell
  virtual StatusOr<std::unique_ptr<Instance>> Instantiate() const = 0;
};

// One thread's handle. Not thread-safe. The caller's thread must run with one OpenMP thread (EnterWorkerThread()).
class Instance {
 public:
  virtual ~Instance() = default;
  // Errors of kernels carry the node's name. A failed run may have written some variables.
  virtual Status Run(const Bindings& bindings, const CancellationToken& cancel = {}) = 0;
};

// Once at the start of every thread that compiles or runs programs: one OpenMP thread, round-to-nearest, denormals
// flushed to zero, so that results do not depend on the thread.
void EnterWorkerThread();

}  // namespace rivulet
