// One program for several lanes at once: the same run for each of several clients, with shared variables and separate
// feeds. Small models are limited by memory bandwidth, not arithmetic: a client with six examples reads every weight
// for six rows. The lanes' activations are adjacent, so a product with shared weights is one call for the rows of all
// lanes (engine/program/lane_kernel.h). Other kernels run once per lane, and nodes that depend on no feed run once.
//
// Updates of variables do not run. They are last in the program, and the caller computes them part by part: one part
// for all lanes, then the next. So a complete gradient never exists in memory, and the sum it is added to stays in the
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

// A range of a float32 buffer that the program would change.
struct LaneUpdate {
  int buffer = 0;
  size_t offset = 0;  // bytes
  int64_t elements = 0;
  int64_t unit = 0;  // parts start and end at multiples of it; 0: cannot be computed by parts
};

// For a single thread. Not thread-safe.
class LaneInstance {
 public:
  virtual ~LaneInstance() = default;
  // As Instance::Run, without changes of variables. bindings.lanes must be this instance's number. Views of feeds and
  // fetches are those of lane 0; the other lanes' memory follows consecutively, each of the same size. The arena has
  // lanes × LaneProgram::arena_bytes(). Errors are from a kernel, for any lane; run the lanes separately to find the
  // lane.
  virtual Status Run(const Bindings& bindings, const CancellationToken& cancel = {}) = 0;
  // Call after Run, while its memory is unchanged: computes `count` elements of an update, from `first` on, as `lane`
  // would store them in the variable.
  virtual void Make(int lane, size_t update, int64_t first, int64_t count, float* to) const = 0;
};

// Immutable, shared by all threads.
class LaneProgram : public std::enable_shared_from_this<LaneProgram> {
 public:
  virtual ~LaneProgram() = default;
  virtual const Signature& signature() const = 0;
  virtual std::span<const TensorSpec> fetch_specs() const = 0;
  virtual size_t arena_bytes() const = 0;                   // per lane
  virtual std::span<const LaneUpdate> updates() const = 0;  // in order of buffer and offset; disjoint
  virtual std::unique_ptr<LaneInstance> Instantiate(int lanes) const = 0;
};

// Makes a program from the result of lowering for lanes. UNIMPLEMENTED, with the reason: a program that draws random
// numbers, runs other programs, or would write a variable before its end.
StatusOr<std::shared_ptr<const LaneProgram>> NewLaneProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                                            LoweredProgram lowered);

}  // namespace rivulet
