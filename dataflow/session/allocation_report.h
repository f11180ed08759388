// Report of live allocations for errors about memory.
#pragma once

#include <string>
#include <vector>

#include "dataflow/resources/resource_manager.h"
#include "engine/program/program.h"

namespace rivulet {

struct LiveTensor {
  std::string name;  // "conv1/Relu", "conv1/Relu:1"; "… (scratch)"
  std::string op;
  TensorSpec spec;  // for scratch memory: uint8
  size_t bytes = 0;
};

struct AllocationReport {
  size_t arena_bytes = 0;                                 // peak memory of the program, including gaps
  size_t live_bytes = 0;                                  // of the tensors that are live at the peak
  size_t constant_bytes = 0;                              // owned by the program
  std::string peak_node;                                  // the instruction at the peak
  std::vector<LiveTensor> live;                           // tensors at the peak, largest first
  std::vector<std::pair<std::string, size_t>> by_op;      // bytes at the peak by op, largest first
  std::vector<std::pair<std::string, size_t>> resources;  // "variable 'w'" …, largest first
  size_t resource_bytes = 0;
  size_t used_bytes = 0, limit_bytes = 0;  // of the budget; limit 0: none

  std::string ToString() const;  // several lines
};

// Computed from the memory plan, without a run. `resources` and `memory` may be null.
AllocationReport ReportAllocations(const Program& program, const ResourceManager* resources,
                                   const MemoryBudget* memory);

}  // namespace rivulet
