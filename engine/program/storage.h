// What a program's values lie in, while it is being planned: stretches of memory with a life in the schedule. Several
// values share one storage where one is a view of the other.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/kernel.h"

namespace rivulet {

struct Storage {
  enum class Kind { kArena, kConstant, kFeed, kVariable };
  Kind kind = Kind::kArena;
  int index = 0;      // of the feed, or of the buffer of a variable
  size_t offset = 0;  // into the arena (once planned), the constants or the buffer
  size_t bytes = 0;
  int first = 0;      // position in the schedule that writes (or reads) it first,
  int last = 0;       // and the last that touches it
  int producer = -1;  // index of the step that writes it, -1 when none does
  int same_as = -1;   // shares the memory of that storage (in place); its life is counted there
};

// A call in the making. Steps stand in the order in which they run; several may have one position.
struct Step {
  enum class Kind { kKernel, kAssign, kReadCopy, kFetch };
  Kind kind = Kind::kKernel;
  const Node* node = nullptr;
  int position = 0;
  Prepared prepared;
  std::vector<int> inputs;     // storages
  std::vector<int> outputs;    // storages
  std::vector<int> variables;  // indices into Signature::variables
  int fetch = -1;
  int scratch = -1;  // storage
  bool writes_variables = false;
  bool removed = false;  // an assignment whose producer writes into the variable
};

}  // namespace rivulet
