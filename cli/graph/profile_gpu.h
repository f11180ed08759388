// Command `rivulet graph profile --device gpu`: a loop's steps on a device, for several clients as in training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/interrupt.h"
#include "engine/base/status.h"
#include "engine/profile/profile.h"
#include "engine/profile/tracer.h"
#include "simulations/step_loop.h"

namespace rivulet {

struct GpuProfileOptions {
  std::string device = "cpu";
  std::optional<int64_t> lanes;
  // A usage error unless it is the CPU without lanes, or a GPU.
  Status Check() const;
  bool on_gpu() const { return device != "cpu"; }
};

// Runs steps 1 to `last` from the loop's initial values, all lanes on the same, and profiles those from `first` on,
// without title and source lines. `tracer` may be null. UNIMPLEMENTED: an op without a kernel there. UNAVAILABLE: the
// device cannot record here; the message has the remedy.
StatusOr<Profile> ProfileOnGpu(StepLoop& loop, int64_t first, int64_t last, const GpuProfileOptions& options,
                               const Interrupt& interrupt, Tracer* tracer);

}  // namespace rivulet
