// Report of the live allocations when memory runs out.
#pragma once

#include <string>
#include <vector>

#include "dataflow/resources/resource_manager.h"
#include "engine/program/program.h"

namespace rivulet {

struct LiveTensor {
  std::string name;  // "conv1/Relu", "conv1/Relu:1"; "… (scratch)"
  std::string op;
  TensorSpec spec;  // of scratch memory: uint8
  size_t bytes = 0;
};

struct AllocationReport {
  size_t arena_bytes = 0;                                 // what the program needs at once, gaps included
  size_t live_bytes = 0;                                  // of the tensors that live at the peak
  size_t constant_bytes = 0;                              // held by the program
  std::string peak_node;                                  // the instruction where most lives
  std::vector<LiveTensor> live;                           // at the peak, largest first
  std::vector<std::pair<std::string, size_t>> by_op;      // bytes at the peak of each op, largest first
  std::vector<std::pair<std::string, size_t>> resources;  // "variable 'w'" …, largest first
  size_t resource_bytes = 0;
  size_t used_bytes = 0, limit_bytes = 0;  // of the budget; limit 0: none

  std::string ToString() const;  // several lines
};

// From the memory plan: no run is needed. `resources` and `memory` may be null.
AllocationReport ReportAllocations(const Program& program, const ResourceManager* resources,
                                   const MemoryBudget* memory);

}  // namespace rivulet
