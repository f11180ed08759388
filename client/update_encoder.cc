#include "client/update_encoder.h"

#include <bit>
#include <cstring>

#include "engine/base/check.h"
#include "proto/federated/update.pb.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "updates are little-endian float32, copied as they lie");

// The wire format of Protocol Buffers, as far as an Update uses it: a key (field number × 8 + wire type) before each
// value.
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };
constexpr uint64_t Key(int field, WireType type) { return static_cast<uint64_t>(field) << 3 | type; }

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  while (value >= 0x80) value >>= 7, ++size;
  return size;
}
void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

size_t BytesSize(int field, size_t length) {
  return VarintSize(Key(field, kLengthDelimited)) + VarintSize(length) + length;
}
size_t IntegerSize(int field, uint64_t value) { return VarintSize(Key(field, kVarint)) + VarintSize(value); }
void AppendHead(std::string& out, int field, size_t length) {
  AppendVarint(out, Key(field, kLengthDelimited));
  AppendVarint(out, length);
}
void AppendBytes(std::string& out, int field, std::string_view bytes) {
  AppendHead(out, field, bytes.size());
  out.append(bytes);
}
void AppendInteger(std::string& out, int field, uint64_t value) {
  AppendVarint(out, Key(field, kVarint));
  AppendVarint(out, value);
}

constexpr int kMapKey = 1, kMapValue = 2;  // of every map's entry
size_t ScalarSize(const std::string& name) { return BytesSize(kMapKey, name.size()) + 1 + sizeof(double); }

}  // namespace

std::string EncodeUpdate(std::string_view task_id, std::span<const FloatSpan> delta, int64_t weight,
                         const Scalars& scalars) {
  constexpr std::string_view name = "delta";
  const auto encoding = static_cast<uint64_t>(Encoding::kF32), unsigned_weight = static_cast<uint64_t>(weight);
  size_t delta_bytes = 0;
  for (const FloatSpan run : delta) delta_bytes += run.size_bytes();
  const size_t part_size = BytesSize(proto::UpdatePart::kNameFieldNumber, name.size()) +
                           IntegerSize(proto::UpdatePart::kEncodingFieldNumber, encoding) +
                           BytesSize(proto::UpdatePart::kDataFieldNumber, delta_bytes) +
                           IntegerSize(proto::UpdatePart::kWeightFieldNumber, unsigned_weight);
  size_t size = BytesSize(proto::Update::kTaskIdFieldNumber, task_id.size()) +
                BytesSize(proto::Update::kPartsFieldNumber, part_size);
  for (const auto& [scalar, value] : scalars) size += BytesSize(proto::Update::kScalarsFieldNumber, ScalarSize(scalar));

  std::string out;
  out.reserve(size);
  AppendBytes(out, proto::Update::kTaskIdFieldNumber, task_id);
  AppendHead(out, proto::Update::kPartsFieldNumber, part_size);
  AppendBytes(out, proto::UpdatePart::kNameFieldNumber, name);
  AppendInteger(out, proto::UpdatePart::kEncodingFieldNumber, encoding);
  AppendHead(out, proto::UpdatePart::kDataFieldNumber, delta_bytes);
  for (const FloatSpan run : delta) out.append(reinterpret_cast<const char*>(run.data()), run.size_bytes());
  AppendInteger(out, proto::UpdatePart::kWeightFieldNumber, unsigned_weight);
  for (const auto& [scalar, value] : scalars) {
    AppendHead(out, proto::Update::kScalarsFieldNumber, ScalarSize(scalar));
    AppendBytes(out, kMapKey, scalar);
    AppendVarint(out, Key(kMapValue, kFixed64));
    char bits[sizeof(double)];
    std::memcpy(bits, &value, sizeof(double));
    out.append(bits, sizeof(double));
  }
  RIVULET_CHECK(out.size() == size, "an Update of {} bytes was planned with {}", out.size(), size);
  return out;
}

}  // namespace rivulet
