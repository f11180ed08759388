#include "client/agent/update_message_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/base/check.h"
#include "proto/federated/update.pb.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "updates are little-endian float32, copied unchanged");

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
void AppendHead(std::string& out, int field, size_t length) {
  AppendVarint(out, Key(field, kLengthDelimited));
  AppendVarint(out, length);
}
void AppendBytes(std::string& out, int field, std::string_view bytes) {
  AppendHead(out, field, bytes.size());
  out.append(bytes);
}

constexpr int kMapKey = 1, kMapValue = 2;  // of every map's entry
size_t ScalarSize(const std::string& name) { return BytesSize(kMapKey, name.size()) + 1 + sizeof(double); }

size_t DataSize(const PartView& part) {
  size_t bytes = part.data.size();
  for (const FloatRun& run : part.runs) bytes += static_cast<size_t>(run.count) * sizeof(float);
  return bytes;
}
size_t PartSize(const PartView& part) {
  return BytesSize(proto::UpdatePart::kNameFieldNumber, part.name.size()) +
         BytesSize(proto::UpdatePart::kDataFieldNumber, DataSize(part));
}

void AppendRun(std::string& out, const FloatRun& run) {
  const auto append = [&](const float* values, int64_t count) {
    out.append(reinterpret_cast<const char*>(values), static_cast<size_t>(count) * sizeof(float));
  };
  if (run.minus == nullptr && run.factor == 1) return append(run.values, run.count);
  std::array<float, 1024> block;
  for (int64_t begin = 0; begin < run.count; begin += std::ssize(block)) {
    const int64_t count = std::min(std::ssize(block), run.count - begin);
    CopyValues(run, begin, count, block.data());
    append(block.data(), count);
  }
}

}  // namespace

std::string WriteUpdate(std::span<const PartView> parts, const Scalars& scalars) {
  size_t size = 0;
  for (const PartView& part : parts) size += BytesSize(proto::Update::kPartsFieldNumber, PartSize(part));
  for (const auto& [scalar, value] : scalars) size += BytesSize(proto::Update::kScalarsFieldNumber, ScalarSize(scalar));

  std::string out;
  out.reserve(size);
  for (const PartView& part : parts) {
    AppendHead(out, proto::Update::kPartsFieldNumber, PartSize(part));
    AppendBytes(out, proto::UpdatePart::kNameFieldNumber, part.name);
    AppendHead(out, proto::UpdatePart::kDataFieldNumber, DataSize(part));
    out.append(reinterpret_cast<const char*>(part.data.data()), part.data.size());
    for (const FloatRun& run : part.runs) AppendRun(out, run);
  }
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
