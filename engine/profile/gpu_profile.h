// Profile and trace of a program's steps on a device, from its activity records (engine/gpu/gpu_activity.h) by the
// labels that instructions set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/gpu/gpu_activity.h"
#include "engine/profile/profile.h"
#include "engine/profile/tracer.h"
#include "engine/program/gpu_program.h"

namespace rivulet {

// Of activities whose labels are `first_label` + the index of an instruction (GpuBindings::first_label): a row for each
// instruction that did something, with the kernels that it launched, the work of all `lanes` and the device's time.
// What bears no such label (copies of inputs) is left out. The steps' wall-clock times are the caller's to give.
Profile GpuProfileOf(const GpuProgram& program, int lanes, std::span<const GpuActivity> activities,
                     uint64_t first_label, const std::vector<double>& step_seconds);

// Each activity as a span of the row "stream N" of the group "GPU D". `program`, where it is not null, names the nodes
// of those with labels, as above.
void TraceGpu(std::span<const GpuActivity> activities, const GpuProgram* program, uint64_t first_label, Tracer& tracer);

}  // namespace rivulet
