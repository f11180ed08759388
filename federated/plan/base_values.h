// The values of a base's variables, where programs read them: in the mapped files, or in memory where a file has them
// at an odd place. All trainers and evaluators of a process share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/tensor/tensor.h"
#include "federated/weights/base.h"
#include "federated/weights/layout.h"

namespace rivulet {

// Immutable, thread-safe. Programs read the mapped pages without a guard: a file that somebody truncates in place ends
// the process. Replacing it by another of its name does no harm.
class BaseValues {
 public:
  // FAILED_PRECONDITION: another base than the layout's. INVALID_ARGUMENT: a variable of the layout that the base has
  // not, or has with another type or shape. RESOURCE_EXHAUSTED: no memory for tensors at odd places.
  static StatusOr<std::shared_ptr<const BaseValues>> Of(std::shared_ptr<const Base> base, const ModelLayout& layout);
  BaseValues(const BaseValues&) = delete;
  BaseValues& operator=(const BaseValues&) = delete;

  const Base& base() const { return *base_; }
  // Of layout.base_variables(), in their order. Programs only read them.
  std::span<const Buffer> buffers() const { return buffers_; }
  // Of tensors that are in memory, as their place in the file is no multiple of 64 bytes.
  int64_t copied_bytes() const { return copied_bytes_; }

 private:
  explicit BaseValues(std::shared_ptr<const Base> base) : base_(std::move(base)) {}

  const std::shared_ptr<const Base> base_;
  std::vector<Buffer> buffers_;
  std::vector<AlignedBuffer> copies_;
  int64_t copied_bytes_ = 0;
};

// The variables of a program that reads a model: those of its arena are in buffer 0, and each of its base in a buffer
// of its own, from 1 on.
std::vector<VariableBinding> BindVariables(const ModelLayout& layout);

}  // namespace rivulet
