#include "engine/profile/gpu_profile.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace rivulet {
namespace {

// The instruction that an activity is of; -1: of none.
int InstructionOf(const GpuActivity& activity, const GpuProgram& program, uint64_t first_label) {
  if (activity.label < first_label || activity.label - first_label >= program.instructions().size()) return -1;
  return static_cast<int>(activity.label - first_label);
}

// "a, b" of distinct names, in order of their first launch.
void AddName(std::string& names, const std::string& name) {
  if ((", " + names + ",").find(", " + name + ",") != std::string::npos) return;
  names += (names.empty() ? "" : ", ") + name;
}

}  // namespace

Profile GpuProfileOf(const GpuProgram& program, int lanes, std::span<const GpuActivity> activities,
                     uint64_t first_label, const std::vector<double>& step_seconds) {
  Profile profile;
  profile.threads = 0;
  profile.steps = static_cast<int64_t>(step_seconds.size());
  profile.step_seconds = std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0);
  profile.run_seconds = profile.step_seconds;
  profile.arena_bytes = static_cast<int64_t>(program.arena_bytes()) * lanes;
  const std::vector<InstructionCost> costs = CostsOf(program);
  std::vector<int> rows(costs.size(), -1);
  for (const GpuActivity& activity : activities) {
    const int index = InstructionOf(activity, program, first_label);
    if (index < 0) continue;
    int& place = rows[static_cast<size_t>(index)];
    if (place < 0) {
      place = static_cast<int>(profile.instructions.size());
      const Instruction& instruction = program.instructions()[static_cast<size_t>(index)];
      const InstructionCost& cost = costs[static_cast<size_t>(index)];
      profile.instructions.push_back({.node = instruction.node,
                                      .op = instruction.op,
                                      .layer = cost.layer,
                                      .implementation = instruction.implementation,
                                      .kernel = "",
                                      .shapes = cost.shapes,
                                      .source_line = instruction.source_line,
                                      // Once a step, however many kernels it is.
                                      .calls = profile.steps,
                                      .flops = cost.flops * lanes,
                                      .bytes = cost.bytes * lanes,
                                      .live_bytes = cost.live_bytes * lanes});
    }
    InstructionProfile& row = profile.instructions[static_cast<size_t>(place)];
    row.seconds += static_cast<double>(activity.end - activity.begin) * 1e-9;
    AddName(row.kernel, activity.name);
  }
  return profile;
}

void TraceGpu(std::span<const GpuActivity> activities, const GpuProgram* program, uint64_t first_label,
              Tracer& tracer) {
  for (const GpuActivity& activity : activities) {
    const TraceRow row = tracer.Row(fmt::format("GPU {}", activity.device), fmt::format("stream {}", activity.stream));
    const int index = program == nullptr ? -1 : InstructionOf(activity, *program, first_label);
    std::vector<TraceArg> args;
    if (activity.bytes > 0) args.push_back({"bytes", static_cast<int64_t>(activity.bytes)});
    if (index >= 0) {
      const Instruction& instruction = program->instructions()[static_cast<size_t>(index)];
      args.push_back({"node", std::string_view(instruction.node)});
      args.push_back({"op", std::string_view(instruction.op)});
    }
    tracer.Complete(row, "gpu", activity.name, activity.begin, activity.end, args);
  }
}

}  // namespace rivulet
