#include "dataflow/lookup/table.h"

#include <cstring>

#include "engine/base/shown_text.h"
#include "engine/tensor/text.h"

namespace rivulet {
namespace {

uint64_t WordAt(const Tensor& tensor, int64_t i) {
  const size_t size = SizeOf(tensor.dtype());
  uint64_t word = 0;
  std::memcpy(&word, tensor.data() + static_cast<size_t>(i) * size, size);
  return word;
}

void SetWord(Tensor& tensor, int64_t i, uint64_t word) {
  const size_t size = SizeOf(tensor.dtype());
  std::memcpy(tensor.data() + static_cast<size_t>(i) * size, &word, size);
}

std::string KeyText(DType dtype, uint64_t word) {
  if (dtype == DType::kString) return fmt::format("'{}'", OneLine(Shortened(TextOfNumber(word))));
  return fmt::format("{}", dtype == DType::kInt32 ? int64_t{static_cast<int32_t>(word)} : static_cast<int64_t>(word));
}

}  // namespace

size_t LookupTable::bytes() const {
  MutexLock lock(mutex_);
  constexpr size_t kPlaceBytes = 40;  // approximate size of a map's node
  return content_.keys.size() * (2 * sizeof(Word) + kPlaceBytes);
}

Status LookupTable::CheckHandle(const Node& handle) const {
  const DType key = handle.attr<DType>("key_dtype"), value = handle.attr<DType>("value_dtype");
  if (key != key_dtype_ || value != value_dtype_ || (handle.type() == "HashTableV2") != filled_once_)
    return InvalidArgument("the table goes from {} to {}{}, and the handle says {} from {} to {}", Name(key_dtype_),
                           Name(value_dtype_), filled_once_ ? ", filled once" : "", handle.type(), Name(key),
                           Name(value));
  return absl::OkStatus();
}

Status LookupTable::CheckTypes(const Tensor& keys, const Tensor& values) const {
  if (keys.dtype() != key_dtype_ || values.dtype() != value_dtype_)
    return InvalidArgument("the table goes from {} to {}, and is given {} and {}", Name(key_dtype_), Name(value_dtype_),
                           Name(keys.dtype()), Name(values.dtype()));
  return absl::OkStatus();
}

Status LookupTable::AddTo(Content& content, const Tensor& keys, const Tensor& values) const {
  RIVULET_RETURN_IF_ERROR(CheckTypes(keys, values));
  if (keys.shape() != values.shape())
    return InvalidArgument("keys {} and values {} differ in shape", keys.shape().ToString(), values.shape().ToString());
  for (int64_t i = 0; i < keys.elements(); ++i) {
    const Word key = WordAt(keys, i), value = WordAt(values, i);
    const auto [known, is_new] = content.places.try_emplace(key, content.keys.size());
    if (is_new) {
      content.keys.push_back(key);
      content.values.push_back(value);
    } else if (filled_once_ && content.values[known->second] != value) {
      return InvalidArgument("key {} has two values; a table that is filled once holds one", KeyText(key_dtype_, key));
    } else {
      content.values[known->second] = value;
    }
  }
  return absl::OkStatus();
}

Status LookupTable::Fill(const Tensor& keys, const Tensor& values) {
  Content content;
  RIVULET_RETURN_IF_ERROR(AddTo(content, keys, values));
  MutexLock lock(mutex_);
  if (filled_ && filled_once_) {
    if (content == content_) return absl::OkStatus();
    return FailedPrecondition("the table was initialised before, with other entries");
  }
  content_ = std::move(content);
  filled_ = true;
  return absl::OkStatus();
}

Status LookupTable::Replace(const Tensor& keys, const Tensor& values) { return Fill(keys, values); }

Status LookupTable::Insert(const Tensor& keys, const Tensor& values) {
  if (filled_once_)
    return FailedPrecondition(
        "a HashTableV2 is filled once, by InitializeTableV2; MutableHashTableV2 takes insertions");
  MutexLock lock(mutex_);
  Content content = content_;  // a copy, so that an error changes nothing
  RIVULET_RETURN_IF_ERROR(AddTo(content, keys, values));
  content_ = std::move(content);
  return absl::OkStatus();
}

Status LookupTable::CheckFilled() const {
  if (filled_once_ && !filled_)
    return FailedPrecondition("the table is read before it has entries; run the target that initialises it");
  return absl::OkStatus();
}

StatusOr<Tensor> LookupTable::Find(const Tensor& keys, const Tensor& default_value) const {
  RIVULET_RETURN_IF_ERROR(CheckTypes(keys, default_value));
  RIVULET_ASSIGN_OR_RETURN(Tensor found, Tensor::Create(value_dtype_, keys.shape()));
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckFilled());
  const Word otherwise = WordAt(default_value, 0);
  for (int64_t i = 0; i < keys.elements(); ++i) {
    const auto place = content_.places.find(WordAt(keys, i));
    SetWord(found, i, place == content_.places.end() ? otherwise : content_.values[place->second]);
  }
  return found;
}

StatusOr<int64_t> LookupTable::size() const {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckFilled());
  return static_cast<int64_t>(content_.keys.size());
}

StatusOr<LookupTable::Entries> LookupTable::Export() const {
  MutexLock lock(mutex_);
  const Shape shape({static_cast<int64_t>(content_.keys.size())});
  Entries entries;
  RIVULET_ASSIGN_OR_RETURN(entries.keys, Tensor::Create(key_dtype_, shape));
  RIVULET_ASSIGN_OR_RETURN(entries.values, Tensor::Create(value_dtype_, shape));
  for (size_t i = 0; i < content_.keys.size(); ++i) {
    SetWord(entries.keys, static_cast<int64_t>(i), content_.keys[i]);
    SetWord(entries.values, static_cast<int64_t>(i), content_.values[i]);
  }
  return entries;
}

}  // namespace rivulet
