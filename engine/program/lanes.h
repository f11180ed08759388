// One program for several lanes at once: the same run for each of several clients, with shared variables and separate
// feeds. Small models are bound by memory and not by arithmetic: a client of six examples reads every weight for six
// rows. The lanes' activations are adjacent, so a product of rows with shared weights is one call for the rows of all
// lanes (engine/program/lane_kernel.h). Other kernels run once a lane, and nodes that depend on no feed run once.
//
// Updates of variables are not run at all. They are last in the program, and the caller computes them part by part: one
// part of all lanes, then the next. So a gradient is never complete in memory, and the sum it is added to stays in the
// cache for all lanes.
//
// The bits of each lane are those of a separate run, for any number of lanes: the choice of kernels does not depend on
// it.
//
//   CompileLanes → LaneProgram → Instantiate(n) → (Run, Make of parts)*
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"

namespace rivulet {

struct LoweredProgram;

// A stretch of a float32 buffer that the program would change.
struct LaneUpdate {
  int buffer = 0;
  size_t offset = 0;  // bytes
  int64_t elements = 0;
  int64_t unit = 0;  // parts begin and end at its multiples; 0: it cannot be made
};

// One thread's. Not thread-safe.
class LaneInstance {
 public:
  virtual ~LaneInstance() = default;
  // As Instance::Run, but for what would change variables. bindings.lanes is this instance's number. Memory of feeds
  // and fetches is that of lane 0, whose views are given; the other lanes' follow, each as long as it. The arena has
  // lanes × LaneProgram::arena_bytes(). Errors are a kernel's, of whichever lane: who wants to know more runs the lanes
  // one by one.
  virtual Status Run(const Bindings& bindings, const CancellationToken& cancel = {}) = 0;
  // After Run, while the memory it was given is as it left it: `count` elements from `first` on of an update, as `lane`
  // would leave them in the variable.
  virtual void Make(int lane, size_t update, int64_t first, int64_t count, float* to) const = 0;
};

// Immutable, shared by all threads.
class LaneProgram : public std::enable_shared_from_this<LaneProgram> {
 public:
  virtual ~LaneProgram() = default;
  virtual const Signature& signature() const = 0;
  virtual std::span<const TensorSpec> fetch_specs() const = 0;
  virtual size_t arena_bytes() const = 0;                   // of one lane
  virtual std::span<const LaneUpdate> updates() const = 0;  // in order of buffer and offset; none overlap
  virtual std::unique_ptr<LaneInstance> Instantiate(int lanes) const = 0;
};

// Of what was lowered for lanes. UNIMPLEMENTED, with what it is: a program that draws random numbers, runs others, or
// whose lanes would write a variable before its end.
StatusOr<std::shared_ptr<const LaneProgram>> NewLaneProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                                            LoweredProgram lowered);

}  // namespace rivulet
