#include "engine/tensor/text.h"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace rivulet {
namespace {

class TextTable {
 public:
  // Never destroyed: texts stay valid for threads that outlive main.
  static TextTable& Global() {
    static TextTable* const table = new TextTable;
    return *table;
  }

  StatusOr<uint64_t> NumberOf(std::string_view text) {
    if (text.empty()) return uint64_t{0};
    {
      const std::shared_lock lock(mutex_);
      if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    }
    const std::unique_lock lock(mutex_);
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    // Approximate size of a map's node and a string, without its characters.
    constexpr size_t kEntryBytes = 96;
    if (text.size() > kMostTextBytes || bytes_ + text.size() + kEntryBytes > kMostTextBytes)
      return ResourceExhausted(
          "string tensors of this process hold {} distinct texts, and there is no room for one of {} bytes: their "
          "table "
          "has {} bytes; keep records in input pipelines and numbers in tensors",
          texts_.size(), text.size(), kMostTextBytes);
    bytes_ += text.size() + kEntryBytes;
    texts_.emplace_back(text);
    numbers_.emplace(texts_.back(), texts_.size());
    return uint64_t{texts_.size()};
  }

  std::string_view TextOf(uint64_t number) {
    const std::shared_lock lock(mutex_);
    return number == 0 || number > texts_.size() ? std::string_view() : texts_[number - 1];
  }

 private:
  std::shared_mutex mutex_;
  std::deque<std::string> texts_;  // number 1 is the first; a deque, as views of them must stay valid
  std::unordered_map<std::string_view, uint64_t> numbers_;
  size_t bytes_ = 0;
};

}  // namespace

StatusOr<uint64_t> NumberOfText(std::string_view text) { return TextTable::Global().NumberOf(text); }

std::string_view TextOfNumber(uint64_t number) { return TextTable::Global().TextOf(number); }

StatusOr<Tensor> TextTensor(Shape shape, std::span<const std::string> texts) {
  RIVULET_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(DType::kString, std::move(shape)));
  RIVULET_CHECK(tensor.elements() == static_cast<int64_t>(texts.size()));
  uint64_t* const numbers = reinterpret_cast<uint64_t*>(tensor.data());
  for (size_t i = 0; i < texts.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(numbers[i], NumberOfText(texts[i]));
  }
  return tensor;
}

std::vector<std::string_view> TextsOf(const Tensor& tensor) {
  RIVULET_CHECK(tensor.dtype() == DType::kString);
  const uint64_t* const numbers = reinterpret_cast<const uint64_t*>(tensor.data());
  std::vector<std::string_view> texts;
  for (int64_t i = 0; i < tensor.elements(); ++i) texts.push_back(TextOfNumber(numbers[i]));
  return texts;
}

}  // namespace rivulet
