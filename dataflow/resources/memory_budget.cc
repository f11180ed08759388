#include "dataflow/resources/memory_budget.h"

namespace rivulet {

// Compares before adding, and again if another thread was faster. Adding first and undoing later could briefly refuse
// others that fit. The comparison subtracts, because sums of requested sizes may overflow 64 bits. If the outer budget
// refuses, the bytes are returned here, so a refusal changes neither budget.
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

// Charges the budget before allocating: a tensor beyond the limit costs a comparison instead of memory that the machine
// may not have.
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
