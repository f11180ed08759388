// Peak memory of a task, planned before anything of it is allocated: compiling a program plans its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "client/training/pass_programs.h"

namespace rivulet {

struct PlannedMemory {
  int64_t model = 0;     // the base version, and what the server sends beside it
  int64_t vectors = 0;   // parameters, gradients, and what the plan has beside them
  int64_t program = 0;   // the largest program's arena and constants
  int64_t transfer = 0;  // the model on its way here, or the update on its way from here
  int64_t total() const { return model + vectors + program + transfer; }
  std::string ToString() const;  // "812 MB: 100 for the model, …"
};

// What the parts of one update come to at most, each of the size given: of those of which it has one
// (PartSpec::only_where) the largest.
int64_t MostOfAnUpdate(const AggregationSpec& spec, const std::function<int64_t(size_t part)>& size);

// What an update has at most, and what a site's sums of updates take, of 64 bits a value: of every part, whoever has
// it.
int64_t MostUpdateValues(const AggregationSpec& spec);
int64_t SumBytes(const AggregationSpec& spec);

// Of a task of `kind` over so many examples. What is kept of decoded examples, which has a budget of its own, and what
// the process takes without any task are not in it. Compiles the programs, which are kept for the task itself. The
// calling thread has called EnterWorkerThread(). Errors are those of PassPrograms.
StatusOr<PlannedMemory> PlanMemory(PassPrograms& programs, TaskKind kind, int64_t examples);

}  // namespace rivulet
