#include "engine/data/plain_example.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace rivulet {
namespace {

// The tags of length-delimited fields 1 to 3.
constexpr char kField1 = 0x0A, kField2 = 0x12, kField3 = 0x1A;

class PlainReader {
 public:
  explicit PlainReader(std::string_view message) : p_(message.data()), end_(p_ + message.size()) {}
  bool AtEnd() const { return p_ == end_; }

  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 63; shift += 7) {  // the tenth byte of a negative number is left to the general reader
      if (p_ == end_) return false;
      const auto byte = static_cast<uint8_t>(*p_++);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  // The next length-delimited field, if it has this tag.
  bool Next(char tag, std::string_view& bytes) {
    uint64_t length;
    if (p_ == end_ || *p_ != tag) return false;
    ++p_;
    if (!Varint(length) || length > static_cast<uint64_t>(end_ - p_)) return false;
    bytes = {p_, static_cast<size_t>(length)};
    p_ += length;
    return true;
  }
  bool Only(char tag, std::string_view& bytes) { return Next(tag, bytes) && AtEnd(); }

 private:
  const char* p_;
  const char* end_;
};

// The single list of a Feature, with a single field.
bool OnlyPiece(std::string_view feature, char kind, std::string_view& piece) {
  std::string_view list;
  return PlainReader(feature).Only(kind, list) && PlainReader(list).Only(kField1, piece);
}

}  // namespace

bool FindPlainFeatures(std::string_view example, std::span<const std::string> names,
                       std::span<std::string_view> features) {
  std::fill(features.begin(), features.end(), std::string_view());
  std::string_view all, entry, key, value;
  if (!PlainReader(example).Only(kField1, all)) return false;
  size_t found = 0;
  for (PlainReader entries(all); !entries.AtEnd();) {
    if (!entries.Next(kField1, entry)) return false;
    PlainReader of_entry(entry);
    if (!of_entry.Next(kField1, key) || !of_entry.Only(kField2, value)) return false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != key) continue;
      if (features[i].data() != nullptr) return false;  // duplicates are left to the general reader
      features[i] = value;
      ++found;
    }
  }
  return found == names.size();
}

bool ReadPlainBytes(std::string_view feature, std::string_view* value) { return OnlyPiece(feature, kField1, *value); }

bool ReadPlainFloats(std::string_view feature, std::span<float> values) {
  static_assert(std::endian::native == std::endian::little, "floats are copied as they are in the message");
  std::string_view packed;
  if (!OnlyPiece(feature, kField2, packed) || packed.size() != values.size_bytes()) return false;
  if (!values.empty()) std::memcpy(values.data(), packed.data(), packed.size());
  return true;
}

bool ReadPlainInt64s(std::string_view feature, std::span<int64_t> values) {
  std::string_view packed;
  if (!OnlyPiece(feature, kField3, packed)) return false;
  PlainReader reader(packed);
  for (int64_t& value : values) {
    uint64_t bits;
    if (!reader.Varint(bits)) return false;
    value = static_cast<int64_t>(bits);
  }
  return reader.AtEnd();
}

}  // namespace rivulet
