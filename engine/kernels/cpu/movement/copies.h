// Kernels that only move elements: transposes, slices, concatenations, padding, tiles. Each is a list of strided
// copies, planned when the kernel is prepared.
#pragma once

#include <vector>

#include "engine/kernels/cpu/strided/element_size.h"
#include "engine/kernels/cpu/strided/strided.h"
#include "engine/program/kernel.h"
#include "engine/tensor/float16.h"

namespace rivulet {

struct StridedCopy {
  int input = 0;
  int output = 0;
  StridedWalk<2> walk;  // operand 0: the output, 1: the input
};

// The work of a kernel of copies: fills output 0 with zeros if `zero_first`, or with the scalar input `fill_input` if
// that is not negative, then makes the copies in order.
struct CopyPlan {
  std::vector<StridedCopy> copies;
  bool zero_first = false;
  int fill_input = -1;
};

// Implemented by kernels from PrepareCopies: other devices move the same elements.
class HasCopyPlan {
 public:
  virtual ~HasCopyPlan() = default;
  virtual const CopyPlan& plan() const = 0;
};

// The plan of a node's CPU kernel. UNIMPLEMENTED: it does more than copy. Errors of its Prepare.
StatusOr<CopyPlan> PlanCopies(const NodeView& node);

// Adds a copy of `dims` elements. `to` and `from` are strides per axis. Errors as MakeWalk.
Status AddCopy(std::vector<StridedCopy>& copies, int input, int output, std::span<const int64_t> dims,
               std::vector<int64_t> to, std::vector<int64_t> from, int64_t to_offset = 0, int64_t from_offset = 0);

// The kernel of a CopyPlan.
StatusOr<Prepared> PrepareCopies(const NodeView& node, std::vector<StridedCopy> copies, bool zero_first = false,
                                 int fill_input = -1);

// The bits of 1, or of true, as an integer of the element's size.
uint64_t BitsOfOne(DType dtype);

}  // namespace rivulet
