#include "dataflow/session/allocation_report.h"

#include <algorithm>
#include <map>

namespace rivulet {
namespace {

// Limit of printed lines per list.
constexpr size_t kLines = 20;

void AppendList(const std::vector<std::pair<std::string, size_t>>& list, std::string_view title, std::string& text) {
  if (list.empty()) return;
  text += fmt::format("\n  {}:", title);
  for (size_t i = 0; i < list.size() && i < kLines; ++i)
    text += fmt::format("\n    {:>14} bytes  {}", list[i].second, list[i].first);
  if (list.size() > kLines) text += fmt::format("\n    … and {} more", list.size() - kLines);
}

}  // namespace

AllocationReport ReportAllocations(const Program& program, const ResourceManager* resources,
                                   const MemoryBudget* memory) {
  AllocationReport report;
  const MemoryPlan& plan = program.memory();
  const auto instructions = program.instructions();
  report.arena_bytes = plan.arena_bytes;
  report.constant_bytes = plan.constant_bytes;

  std::vector<int64_t> change(instructions.size() + 1, 0);
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.continues_another) continue;
    change[static_cast<size_t>(tensor.first)] += static_cast<int64_t>(tensor.bytes);
    change[static_cast<size_t>(tensor.last) + 1] -= static_cast<int64_t>(tensor.bytes);
  }
  int64_t live = 0, most = -1;
  int peak = 0;
  for (size_t i = 0; i < instructions.size(); ++i) {
    live += change[i];
    if (live <= most) continue;
    most = live;
    peak = static_cast<int>(i);
  }
  if (instructions.empty()) return report;
  report.peak_node = instructions[static_cast<size_t>(peak)].node;

  // Of tensors that use the same bytes in turn, in place, shows the last one.
  std::map<size_t, const PlannedTensor*> at_offset;
  for (const PlannedTensor& tensor : plan.tensors)
    if (tensor.first <= peak && tensor.instruction <= peak && peak <= tensor.last) at_offset[tensor.offset] = &tensor;
  std::map<std::string, size_t> by_op;
  for (const auto& [offset, tensor] : at_offset) {
    const Instruction& made_by = instructions[static_cast<size_t>(tensor->instruction)];
    LiveTensor entry{
        made_by.node, made_by.op, {DType::kUint8, Shape({static_cast<int64_t>(tensor->bytes)})}, tensor->bytes};
    if (tensor->output < 0) {
      entry.name += " (scratch)";
    } else if (static_cast<size_t>(tensor->output) < made_by.outputs.size()) {
      entry.spec = made_by.outputs[static_cast<size_t>(tensor->output)];
      if (tensor->output > 0) entry.name += fmt::format(":{}", tensor->output);
    }
    report.live_bytes += tensor->bytes;
    by_op[made_by.op] += tensor->bytes;
    report.live.push_back(std::move(entry));
  }
  std::stable_sort(report.live.begin(), report.live.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  const auto larger = [](const auto& a, const auto& b) { return a.second > b.second; };
  report.by_op.assign(by_op.begin(), by_op.end());
  std::stable_sort(report.by_op.begin(), report.by_op.end(), larger);
  if (resources != nullptr) {
    for (const ResourceManager::Listing& listing : resources->List()) {
      report.resource_bytes += listing.resource->bytes();
      report.resources.emplace_back(fmt::format("{} '{}' of {}", listing.type, listing.name, listing.container),
                                    listing.resource->bytes());
    }
    std::stable_sort(report.resources.begin(), report.resources.end(), larger);
  }
  if (memory != nullptr) {
    report.used_bytes = memory->used();
    report.limit_bytes = memory->limit();
  }
  return report;
}

std::string AllocationReport::ToString() const {
  std::string text = fmt::format(
      "the program needs an arena of {} bytes; at its peak, in '{}', {} bytes are live; constants take {} bytes, "
      "variables and other resources {}",
      arena_bytes, peak_node, live_bytes, constant_bytes, resource_bytes);
  if (limit_bytes > 0) text += fmt::format("; {} of {} bytes are in use", used_bytes, limit_bytes);
  std::vector<std::pair<std::string, size_t>> tensors;
  for (const LiveTensor& tensor : live)
    tensors.emplace_back(
        fmt::format("{} '{}' {}{}", tensor.op, tensor.name, Name(tensor.spec.dtype), tensor.spec.shape.ToString()),
        tensor.bytes);
  AppendList(by_op, "by op, at the peak", text);
  AppendList(tensors, "live tensors at the peak", text);
  AppendList(resources, "variables and other resources", text);
  return text;
}

}  // namespace rivulet
