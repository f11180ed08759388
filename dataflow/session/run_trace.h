// Recorder of a run for RunMetadata.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataflow/session/run_plan.h"
#include "engine/base/mutex.h"
#include "engine/profile/run_recorder.h"
#include "engine/program/program.h"

namespace rivulet {

namespace proto {
class RunMetadata;
}  // namespace proto

struct TraceWishes {
  bool step_stats = false;
  bool cost_graph = false;
  bool partition_graphs = false;
  bool output_shapes = false;  // adds the attribute _output_shapes to them
  bool Times() const { return step_stats || cost_graph; }
  bool Any() const { return Times() || partition_graphs; }
};

// Thread-safe; shared by the threads of one run.
class RunTrace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit RunTrace(const TraceWishes& wishes) : wishes_(wishes) {}
  const TraceWishes& wishes() const { return wishes_; }
  bool wanted() const { return wishes_.Any(); }

  // Records a part that has run on this thread, with the times in `recorder` (null: none).
  void AddPart(const PlanPart& part, std::shared_ptr<const Program> program, const CompileOptions& options,
               const RunRecorder* recorder);
  // Records an asynchronous op that is done.
  void AddAsync(const Node& node, Clock::time_point begin, Clock::time_point end);
  // Call after the run. `run_graph` is the run's graph, cut if it was placed on several devices: then its parts, with
  // their sends and receives, are the partition graphs.
  void Write(const Graph& run_graph, proto::RunMetadata& metadata) const;

 private:
  struct PartTrace {
    const PlanPart* part = nullptr;
    std::shared_ptr<const Program> program;
    std::vector<InstructionSpan> spans;
    uint32_t thread = 0;
    std::string thread_name;
    std::string graph;  // GraphDef
  };
  struct AsyncTrace {
    std::string name, op, device;
    int64_t begin = 0, end = 0;  // ProfileNanos
    uint32_t thread = 0;
  };
  const TraceWishes wishes_;
  mutable Mutex mutex_;
  std::vector<PartTrace> parts_ GUARDED_BY(mutex_);
  std::vector<AsyncTrace> asyncs_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
