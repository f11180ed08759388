#include "tests/fuzz/changes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace rivulet::fuzz {
namespace {

size_t Below(size_t bound, std::mt19937& random) { return bound == 0 ? 0 : random() % bound; }

// Protobuf's wire types; groups, which nothing of ours has, are none.
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr uint64_t kMostNumber = (uint64_t{1} << 29) - 1;
constexpr size_t kMostDepth = 64;  // deeper is changed as bytes

struct Field {
  uint64_t number = 1;
  uint64_t type = kVarint;
  std::string value;  // as it is sent, without a length before it
};
using Fields = std::vector<Field>;

std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::string VarintOf(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

// How many bytes the value at the front of `bytes` has; what goes before it is taken.
std::optional<size_t> TakeSize(uint64_t type, std::string_view& bytes) {
  std::string_view rest = bytes;
  if (type == kVarint) return TakeVarint(rest) ? std::optional(bytes.size() - rest.size()) : std::nullopt;
  if (type == kFixed64) return 8;
  if (type == kFixed32) return 4;
  return type == kBytes ? TakeVarint(bytes) : std::nullopt;
}

std::optional<Fields> FieldsOf(std::string_view message) {
  Fields fields;
  while (!message.empty()) {
    const auto tag = TakeVarint(message);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > kMostNumber) return std::nullopt;
    const auto size = TakeSize(*tag & 7, message);
    if (!size || *size > message.size()) return std::nullopt;
    fields.push_back({*tag >> 3, *tag & 7, std::string(message.substr(0, *size))});
    message.remove_prefix(*size);
  }
  return fields;
}

std::string MessageOf(const Fields& fields) {
  std::string message;
  for (const Field& field : fields) {
    message += VarintOf(field.number << 3 | field.type);
    if (field.type == kBytes) message += VarintOf(field.value.size());
    message += field.value;
  }
  return message;
}

std::string ChangedVarint(std::string_view old, std::mt19937& random) {
  constexpr uint64_t kEdges[] = {0,          1,          2,          127,       255,        256,        65'535,
                                 1u << 24,   1u << 30,   0x7fffffff, 1u << 31,  0xffffffff, 1ull << 32, 1ull << 53,
                                 1ull << 62, ~0ull >> 1, 1ull << 63, ~0ull - 1, ~0ull};
  const uint64_t value = TakeVarint(old).value_or(0);
  switch (Below(5, random)) {
    case 0:
      return VarintOf(value + 1);
    case 1:
      return VarintOf(value - 1);
    case 2:
      return VarintOf(value ^ uint64_t{1} << Below(64, random));
    case 3:
      return VarintOf(Below(64, random));  // of an enumeration, or a size
    default:
      return VarintOf(kEdges[Below(std::size(kEdges), random)]);
  }
}

// Of four or eight bytes: a bit, or all that a float or an integer has at its edges.
std::string ChangedFixed(std::string value, std::mt19937& random) {
  constexpr char kBytes[] = {0, 1, 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
  switch (Below(3, random)) {
    case 0: {
      char& byte = value[Below(value.size(), random)];
      byte = static_cast<char>(byte ^ 1 << Below(8, random));
      return value;
    }
    case 1:
      return std::string(value.size(), kBytes[Below(std::size(kBytes), random)]);
    default:  // infinity, not a number, the largest
      value.back() = '\x7f';
      value[value.size() - 2] = static_cast<char>(Below(2, random) == 0 ? 0xf0 : 0x80);
      return value;
  }
}

std::string ChangedValue(const Field& field, std::mt19937& random, const ChangeBytes& change) {
  if (field.type == kVarint) return ChangedVarint(field.value, random);
  return field.type == kBytes ? change(field.value) : ChangedFixed(field.value, random);
}

Field NewField(std::mt19937& random, const ChangeBytes& change) {
  constexpr WireType kTypes[] = {kVarint, kFixed64, kBytes, kFixed32};
  Field field{1 + Below(24, random), kTypes[Below(std::size(kTypes), random)], ""};
  if (field.type == kFixed64 || field.type == kFixed32) field.value.resize(field.type == kFixed64 ? 8 : 4);
  field.value = ChangedValue(field, random, change);
  return field;
}

// The field within as many of its own kind as `depth` says: parsers that go down by themselves have an end to that.
void NestWithinItself(Field& field, size_t depth) {
  for (; depth > 0; --depth) field = {field.number, kBytes, MessageOf({field})};
}

void ChangeFields(Fields& fields, size_t at, std::mt19937& random, const ChangeBytes& change) {
  Field& field = fields[at];
  const auto place = fields.begin() + static_cast<ptrdiff_t>(at);
  switch (Below(12, random)) {
    case 0:
      fields.erase(place);
      break;
    case 1:
      fields.insert(place, Field(field));
      break;
    case 2:
      std::swap(field, fields[Below(fields.size(), random)]);
      break;
    case 3:
      field.number = 1 + Below(24, random);
      break;
    case 4:
      fields.insert(place, NewField(random, change));
      break;
    case 5: {  // another's value, where one of its kind is
      const Field& other = fields[Below(fields.size(), random)];
      if (other.type == field.type) field.value = other.value;
      break;
    }
    case 6:
      if (Below(8, random) == 0) NestWithinItself(field, 1 + Below(150, random));
      break;
    default:
      field.value = ChangedValue(field, random, change);
  }
}

std::string Changed(std::string_view message, size_t depth, std::mt19937& random, const ChangeBytes& change) {
  std::optional<Fields> fields = depth < kMostDepth ? FieldsOf(message) : std::nullopt;
  if (!fields) return change(message);
  if (fields->empty()) return MessageOf({NewField(random, change)});
  const size_t at = Below(fields->size(), random);
  Field& field = (*fields)[at];
  if (field.type == kBytes && !field.value.empty() && Below(8, random) != 0) {
    field.value = Changed(field.value, depth + 1, random, change);  // a message, or a string that may be none
  } else {
    ChangeFields(*fields, at, random, change);
  }
  return MessageOf(*fields);
}

}  // namespace

std::string ChangedBytes(std::string bytes, std::span<const std::string> others, std::mt19937& random) {
  constexpr char kEdges[] = {0, 1, 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
  for (size_t changes = 1 + Below(4, random); changes > 0; --changes) {
    const size_t at = Below(bytes.size(), random);
    const size_t size = Below(std::min<size_t>(bytes.size() - at + 1, 16), random);
    switch (Below(7, random)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8, random)));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = kEdges[Below(std::size(kEdges), random)];
        break;
      case 2:
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, kEdges[Below(std::size(kEdges), random)]);
        break;
      case 3:
        bytes.erase(at, size);
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 5:
        bytes.resize(at);
        break;
      default: {
        const std::string& other = others[Below(others.size(), random)];
        bytes.insert(at, other.substr(Below(other.size() + 1, random), size));
      }
    }
  }
  return bytes;
}

std::string ChangedMessage(std::string_view message, std::mt19937& random, const ChangeBytes& change) {
  return Changed(message, 0, random, change);
}

}  // namespace rivulet::fuzz
