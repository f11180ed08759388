// Cost model of nodes: their durations and output bytes, measured in earlier steps. Placement and the schedule of
// receives use it; it never influences values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/run_observer.h"

namespace rivulet {

class CostModel {
 public:
  // Assumed for nodes without measurements; TensorFlow's estimate.
  static constexpr double kUnmeasuredSeconds = 1e-6;
  // A transfer between devices of one process passes a buffer and wakes a thread.
  double transfer_latency_seconds = 10e-6;
  double transfer_bytes_per_second = 10e9;

  // Adds a measurement; the mean is used.
  void Record(std::string_view node, double seconds);
  // Adds a measurement; the maximum is used.
  void RecordBytes(std::string_view node, int port, int64_t bytes);
  bool measured(std::string_view node) const;
  bool empty() const { return nodes_.empty(); }

  double Seconds(const Node& node) const;
  // The measured bytes; otherwise those of the inferred shape, with unknown dimensions as 1.
  int64_t Bytes(const Output& output) const;
  double TransferSeconds(int64_t bytes) const {
    return transfer_latency_seconds + static_cast<double>(bytes) / transfer_bytes_per_second;
  }
  void Merge(const CostModel& other);

  // Serialises to a CostGraphDef, TensorFlow's cost_graph.proto: one node per node of `graph`, with its device, inputs,
  // the bytes of its outputs, and compute_cost and compute_time in microseconds; unmeasured nodes are marked
  // inaccurate. Times are rounded to microseconds, as the format requires, to at least 1 if not zero.
  std::string Serialize(const Graph& graph) const;
  // DATA_LOSS: not a CostGraphDef. INVALID_ARGUMENT: a node without a name, two nodes with one name, negative costs.
  static StatusOr<CostModel> Parse(std::string_view cost_graph_def);

 private:
  struct Cost {
    double seconds = 0;
    int64_t count = 0;
    std::vector<int64_t> bytes;  // by port; -1: not measured
  };
  std::map<std::string, Cost, std::less<>> nodes_;
};

// Fills a cost model from runs that it observes. Time inside If, While and calls counts for the node that contains it.
// Thread-safe.
class CostObserver : public RunObserver {
 public:
  void Begin(const Program& program, int index, const KernelContext& context) override;
  Status End(const Program& program, int index, const KernelContext& context) override;
  void Failed(const Program& program, int index, const Status& status) override;
  CostModel model() const;

 private:
  mutable Mutex mutex_;
  CostModel model_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
