#include "dataflow/distributed/join_traces.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "proto/graph/run_metadata.pb.h"

namespace rivulet {
namespace {

// TensorFlow's older tasks report only microseconds.
int64_t StartOf(const proto::NodeExecStats& node) {
  return node.all_start_nanos() != 0 ? node.all_start_nanos() : node.all_start_micros() * 1000;
}
int64_t DurationOf(const proto::NodeExecStats& node) {
  return std::max(node.all_end_rel_nanos(), node.all_end_rel_micros() * 1000);
}

// Times since 1970; 0 means not measured.
void Move(proto::NodeExecStats& node, int64_t by) {
  const int64_t start = StartOf(node) + by;
  node.set_all_start_nanos(start);
  node.set_all_start_micros(start / 1000);
  if (node.scheduled_nanos() != 0) node.set_scheduled_nanos(node.scheduled_nanos() + by);
  if (node.scheduled_micros() != 0) node.set_scheduled_micros(node.scheduled_micros() + by / 1000);
  for (proto::AllocatorMemoryUsed& memory : *node.mutable_memory())
    for (proto::AllocationRecord& record : *memory.mutable_allocation_records())
      record.set_alloc_micros(record.alloc_micros() + by / 1000);
}

}  // namespace

int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t ClockOffset(const TaskTrace& trace, int64_t sent, int64_t arrived) {
  if (trace.received_nanos != 0 && trace.answered_nanos != 0)
    return ((trace.received_nanos - sent) + (trace.answered_nanos - arrived)) / 2;
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (const proto::DeviceStepStats& device : trace.metadata->step_stats().dev_stats()) {
    for (const proto::NodeExecStats& node : device.node_stats()) {
      first = std::min(first, StartOf(node));
      last = std::max(last, StartOf(node) + DurationOf(node));
    }
  }
  if (last == 0 || (first >= sent && last <= arrived)) return 0;
  return first + (last - first) / 2 - (sent + (arrived - sent) / 2);
}

void JoinTrace(const TaskTrace& trace, int64_t sent, int64_t arrived, proto::RunMetadata& joined) {
  if (trace.metadata == nullptr) return;
  const int64_t offset = ClockOffset(trace, sent, arrived);
  proto::RunMetadata moved = *trace.metadata;
  for (proto::DeviceStepStats& device : *moved.mutable_step_stats()->mutable_dev_stats())
    for (proto::NodeExecStats& node : *device.mutable_node_stats()) Move(node, -offset);
  joined.mutable_step_stats()->MergeFrom(moved.step_stats());
  for (proto::GraphDef& graph : *moved.mutable_partition_graphs()) joined.add_partition_graphs()->Swap(&graph);
}

}  // namespace rivulet
