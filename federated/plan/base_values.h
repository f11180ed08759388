// The values of a base's variables as programs read them: in the mapped files, or in memory if they are misaligned in
// the file. All trainers and evaluators of a process share one object.
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

// Immutable, thread-safe. Programs read the mapped pages unguarded: truncating a file in place kills the process.
// Replacing it by another file of the same name is safe.
class BaseValues {
 public:
  // FAILED_PRECONDITION: not the layout's base. INVALID_ARGUMENT: the base lacks a variable of the layout, or has it
  // with another type or shape. RESOURCE_EXHAUSTED: no memory for misaligned tensors.
  static StatusOr<std::shared_ptr<const BaseValues>> Of(std::shared_ptr<const Base> base, const ModelLayout& layout);
  BaseValues(const BaseValues&) = delete;
  BaseValues& operator=(const BaseValues&) = delete;

  const Base& base() const { return *base_; }
  // Buffers of layout.base_variables(), in their order; read-only for programs.
  std::span<const Buffer> buffers() const { return buffers_; }
  // Bytes of tensors that were copied to memory because their offset in the file is not a multiple of 64.
  int64_t copied_bytes() const { return copied_bytes_; }

 private:
  explicit BaseValues(std::shared_ptr<const Base> base) : base_(std::move(base)) {}

  const std::shared_ptr<const Base> base_;
  std::vector<Buffer> buffers_;
  std::vector<AlignedBuffer> copies_;
  int64_t copied_bytes_ = 0;
};

// Bindings of the variables of a program that reads a model: variables of its arena are in buffer 0, and each of its
// base in a separate buffer, from 1 on.
std::vector<VariableBinding> BindVariables(const ModelLayout& layout);

}  // namespace rivulet
