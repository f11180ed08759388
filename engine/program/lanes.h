// One program for several lanes at once: the same run for each of several clients, who read the same variables and are
// fed apart. Small models are bound by memory and not by arithmetic: a client of six examples reads every weight for
// six rows. Here the lanes' activations lie one behind the other, so what multiplies rows by shared weights is one call
// for the rows of all lanes (engine/program/lane_kernel.h); other kernels run once a lane, and what no feed reaches
// once.
//
// Updates of variables are not run at all. They stand last in the program, and whoever wants them makes them part by
// part: of all lanes one part, then of all the next, so that a gradient never is in memory, and what a part is added
// to is near for all lanes.
//
// The bits of each lane are those of a run by itself, however many there are: no kernel is chosen by the lanes' number.
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
