// Profile and trace of a program's steps on a device. They are made from its activity records
// (engine/gpu/gpu_activity.h) with the labels set by instructions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/gpu/gpu_activity.h"
#include "engine/profile/profile.h"
#include "engine/profile/tracer.h"
#include "engine/program/gpu_program.h"

namespace rivulet {

// Makes a profile of activities with labels `first_label` + index of an instruction (GpuBindings::first_label). Each
// instruction with activities gets a row: its kernels, the work of all `lanes` and the device's time. Activities
// without such a label (copies of inputs) are omitted. The caller sets the steps' wall-clock times.
Profile GpuProfileOf(const GpuProgram& program, int lanes, std::span<const GpuActivity> activities,
                     uint64_t first_label, const std::vector<double>& step_seconds);

// Traces each activity as a span of the row "stream N" in the group "GPU D". `program`, unless null, names the nodes of
// labelled activities, as above.
void TraceGpu(std::span<const GpuActivity> activities, const GpuProgram* program, uint64_t first_label, Tracer& tracer);

}  // namespace rivulet
