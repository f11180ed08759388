#include "dataflow/resources/memory_budget.h"

namespace rivulet {

// Compared before it is added, and again when another thread was faster. An addition that is taken back when it was too
// much would, for a moment, refuse others that fit. The comparison subtracts, since a sum of what a graph asks for can
// run past 64 bits. What the outer budget refuses is given back here, so a refusal leaves both as they were.
Status MemoryBudget::Take(size_t bytes, std::string_view what) {
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (limit_ > 0 && (used > limit_ || bytes > limit_ - used))
      return ResourceExhausted("{} needs {} bytes, and {} holds {} of its {}", what, bytes, name_, used, limit_);
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (outer_ == nullptr) return absl::OkStatus();
  Status status = outer_->Take(bytes, what);
  if (!status.ok()) used_.fetch_sub(bytes, std::memory_order_relaxed);
  return status;
}

void MemoryBudget::Give(size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (outer_ != nullptr) outer_->Give(bytes);
}

StatusOr<MemoryCharge> MemoryCharge::Take(std::shared_ptr<MemoryBudget> budget, size_t bytes, std::string_view what) {
  MemoryCharge charge;
  if (budget == nullptr) return charge;
  RIVULET_RETURN_IF_ERROR(budget->Take(bytes, what));
  charge.budget_ = std::move(budget);
  charge.bytes_ = bytes;
  return charge;
}

// Taken before it is allocated: a tensor beyond the limit costs a comparison, and not memory that the machine may not
// have.
StatusOr<BudgetedBuffer> BudgetedBuffer::Create(size_t bytes, std::shared_ptr<MemoryBudget> budget,
                                                std::string_view what) {
  if (budget != nullptr) RIVULET_RETURN_IF_ERROR(budget->Take(bytes, what));
  StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(bytes);
  if (!buffer.ok()) {
    if (budget != nullptr) budget->Give(bytes);
    return Annotate(buffer.status(), what);
  }
  BudgetedBuffer result;
  result.buffer_ = *std::move(buffer);
  result.budget_ = std::move(budget);
  return result;
}

}  // namespace rivulet
