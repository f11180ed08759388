// Limit and current total of allocated bytes, for one session or for all that share state.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Thread-safe. Bytes taken here are also taken from `outer`.
class MemoryBudget {
 public:
  MemoryBudget(std::string name, size_t limit_bytes, std::shared_ptr<MemoryBudget> outer = nullptr)
      : name_(std::move(name)), limit_(limit_bytes), outer_(std::move(outer)) {}
  // RESOURCE_EXHAUSTED: `what` requests more than the limit leaves; nothing is taken then.
  Status Take(size_t bytes, std::string_view what);
  void Give(size_t bytes);
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_; }  // 0: none
  const std::string& name() const { return name_; }
  const std::shared_ptr<MemoryBudget>& outer() const { return outer_; }

 private:
  const std::string name_;
  const size_t limit_;
  std::atomic<size_t> used_{0};
  const std::shared_ptr<MemoryBudget> outer_;
};

// A charge on a budget for the life of this object, for memory that other code allocates.
class MemoryCharge {
 public:
  MemoryCharge() = default;  // an empty charge
  // RESOURCE_EXHAUSTED: `what` requests more than the limit leaves.
  static StatusOr<MemoryCharge> Take(std::shared_ptr<MemoryBudget> budget, size_t bytes, std::string_view what);
  ~MemoryCharge() { Release(); }
  MemoryCharge(MemoryCharge&& other) noexcept { *this = std::move(other); }
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    if (this == &other) return *this;
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

 private:
  void Release() {
    if (budget_ != nullptr) budget_->Give(bytes_);
    budget_ = nullptr;
  }
  std::shared_ptr<MemoryBudget> budget_;
  size_t bytes_ = 0;
};

// Zeroed memory, 64-byte aligned, that is charged to a budget during its life.
class BudgetedBuffer {
 public:
  BudgetedBuffer() = default;
  // RESOURCE_EXHAUSTED: beyond the budget, or more than the machine has; the message starts with `what`.
  static StatusOr<BudgetedBuffer> Create(size_t bytes, std::shared_ptr<MemoryBudget> budget, std::string_view what);
  ~BudgetedBuffer() { Release(); }
  BudgetedBuffer(BudgetedBuffer&& other) noexcept { *this = std::move(other); }
  BudgetedBuffer& operator=(BudgetedBuffer&& other) noexcept {
    if (this == &other) return *this;
    Release();
    buffer_ = std::exchange(other.buffer_, {});
    budget_ = std::exchange(other.budget_, nullptr);
    return *this;
  }
  std::byte* data() { return buffer_.data(); }
  const std::byte* data() const { return buffer_.data(); }
  size_t size() const { return buffer_.size(); }

 private:
  void Release() {
    if (budget_ != nullptr) budget_->Give(buffer_.size());
    budget_ = nullptr;
  }
  AlignedBuffer buffer_;
  std::shared_ptr<MemoryBudget> budget_;
};

}  // namespace rivulet
