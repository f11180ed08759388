// Storage of a program's values during planning: memory ranges with a lifetime in the schedule. A value and its views
// share one storage.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/kernel.h"
#include "engine/program/program.h"

namespace rivulet {

struct Storage {
  enum class Kind { kArena, kConstant, kFeed, kVariable };
  Kind kind = Kind::kArena;
  int index = 0;      // of the feed, or of a variable's buffer
  size_t offset = 0;  // into the arena (once planned), the constants or the buffer
  size_t bytes = 0;
  int first = 0;      // first position in the schedule that writes (or reads) it,
  int last = 0;       // and the last that accesses it
  int producer = -1;  // index of the step that writes it, or -1
  int same_as = -1;   // shares that storage's memory (in place), which has the lifetime
};

// Memory of a variable that a step accesses by its handle.
struct VariablePlace {
  int buffer = 0;
  size_t offset = 0, bytes = 0;
  TensorSpec spec;
  bool Overlaps(const VariablePlace& other) const {
    return buffer == other.buffer && offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
  bool SameMemory(const VariablePlace& other) const {
    return buffer == other.buffer && offset == other.offset && bytes == other.bytes;
  }
};
inline VariablePlace PlaceOf(const VariableBinding& variable) {
  return {variable.buffer, variable.offset,
          static_cast<size_t>(variable.spec.shape.elements()) * SizeOf(variable.spec.dtype), variable.spec};
}
inline VariablePlace PlaceOf(const Storage& storage) { return {storage.index, storage.offset, storage.bytes, {}}; }

// A call under construction. Steps are in execution order; several may have one position.
struct Step {
  enum class Kind { kKernel, kAssign, kReadCopy, kFetch };
  Kind kind = Kind::kKernel;
  const Node* node = nullptr;
  const Node* made_for = nullptr;  // node of its outputs, if not the step's own
  int position = 0;
  Prepared prepared;
  std::vector<int> inputs;   // storages
  std::vector<int> outputs;  // storages
  std::vector<VariablePlace> variables;
  int fetch = -1;
  int scratch = -1;  // storage
  bool writes_variables = false;
  bool removed = false;   // an assignment whose producer writes to the variable
  bool descends = false;  // updates its variable by plain SGD instead of writing a gradient
};

}  // namespace rivulet
