// Memory of a variable.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "dataflow/resources/resource_manager.h"

namespace rivulet {

class VariableResource final : public Resource {
 public:
  static constexpr std::string_view kType = "Variable";
  // INVALID_ARGUMENT: a shape that is not fully known, a type without values. RESOURCE_EXHAUSTED: no memory for it.
  static StatusOr<std::shared_ptr<VariableResource>> Create(std::string_view name, const TensorSpec& spec,
                                                            const std::shared_ptr<MemoryBudget>& memory);

  std::string_view type() const override { return kType; }
  size_t bytes() const override { return storage_.size(); }
  Status CheckHandle(const Node& handle) const override;
  const std::string& name() const { return name_; }
  const TensorSpec& spec() const { return spec_; }
  // Code that locks several variables must do so in this order.
  uint64_t order() const { return order_; }
  std::shared_mutex& mutex() { return mutex_; }
  std::byte* data() { return storage_.data(); }  // requires mutex()
  bool initialized() const { return initialized_; }
  void set_initialized() { initialized_ = true; }

 private:
  VariableResource() = default;
  std::string name_;
  TensorSpec spec_;
  uint64_t order_ = 0;
  std::shared_mutex mutex_;  // guards the members below: shared to read, exclusive to change
  BudgetedBuffer storage_;
  bool initialized_ = false;
};

}  // namespace rivulet
