// Peak memory of a task, planned before anything of it is allocated: compiling a program plans its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "client/training/pass_programs.h"

namespace rivulet {

struct PlannedMemory {
  int64_t model = 0;     // the base version and its broadcast vectors
  int64_t vectors = 0;   // parameters, gradients and the plan's own vectors
  int64_t program = 0;   // the largest program's arena and constants
  int64_t transfer = 0;  // the downloaded model, or the uploaded update
  int64_t total() const { return model + vectors + program + transfer; }
  std::string ToString() const;  // "812 MB: 100 for the model, …"
};

// Largest total size of one update's parts. Among optional parts that exclude each other (PartSpec::only_where), the
// largest counts.
int64_t MostOfAnUpdate(const AggregationSpec& spec, const std::function<int64_t(size_t part)>& size);

// Most values of an update; and the bytes of a site's sums, 64 bits for each value of every part.
int64_t MostUpdateValues(const AggregationSpec& spec);
int64_t SumBytes(const AggregationSpec& spec);

// Plans the peak memory of a task over so many examples. Decoded examples, which have their own budget, and the
// process's memory without a task are not counted. Compiles the programs, which the task then uses. The calling thread
// has called EnterWorkerThread(). Errors are those of PassPrograms.
StatusOr<PlannedMemory> PlanMemory(PassPrograms& programs, TaskKind kind, int64_t examples);

}  // namespace rivulet
