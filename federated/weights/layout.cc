#include "federated/weights/layout.h"

#include <unordered_set>
#include <utility>

namespace rivulet {
namespace {

// Size of a cache line and of the widest vectors; kernels require aligned rows.
constexpr size_t kAlignment = 64;
// Ensures that offsets, and sums of a few buffer sizes, never overflow.
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 46;

// Together these limits keep a model file's header below the format's maximum.
constexpr size_t kMaxVariables = size_t{1} << 16, kMaxVariableNameBytes = 1024;

// Well-formed UTF-8 (RFC 3629): the only names that a model file can hold.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    if (length == 0 || length > text.size() - i) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<uint8_t>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    if (length > 2) {  // overlong forms, surrogates, beyond U+10FFFF
      const auto second = static_cast<uint8_t>(text[i + 1]);
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
          (lead == 0xF4 && second > 0x8F)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

Status CheckVariable(const VariableSpec& variable) {
  if (variable.name.empty()) return InvalidArgument("a {} variable has an empty name", Name(variable.segment));
  if (variable.name.size() > kMaxVariableNameBytes || variable.name == "__metadata__" || !IsUtf8(variable.name)) {
    return InvalidArgument("a {} variable of {} has a name that no model file can hold; use at most {} bytes of UTF-8",
                           Name(variable.segment), variable.spec.shape.ToString(), kMaxVariableNameBytes);
  }
  const auto elements = variable.spec.shape.CheckedElements();
  if (!elements.ok()) {
    return InvalidArgument("variable '{}' cannot be laid out: {}", variable.name, Message(elements.status()));
  }
  const DType dtype = variable.spec.dtype;
  if (SafetensorsName(dtype).empty()) {
    return InvalidArgument("variable '{}' is {}, which no model file can hold", variable.name, Name(dtype));
  }
  if (variable.segment != Segment::kFrozen && variable.segment != Segment::kBase && dtype != DType::kFloat32) {
    return InvalidArgument(
        "{} variable '{}' is {}; updates are float32, and so is all that is trained: declare it so, or as frozen",
        Name(variable.segment), variable.name, Name(dtype));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(Segment segment) {
  switch (segment) {
    case Segment::kTrainable:
      return "trainable";
    case Segment::kShared:
      return "shared";
    case Segment::kLocal:
      return "local";
    case Segment::kFrozen:
      return "frozen";
    case Segment::kBase:
      return "base";
  }
  return "unknown";
}

StatusOr<Segment> SegmentFromName(std::string_view name) {
  for (const Segment segment : kSegments) {
    if (Name(segment) == name) return segment;
  }
  if (name == Name(Segment::kBase)) return Segment::kBase;
  return InvalidArgument("segment '{}' is not one of trainable, shared, local, frozen and base", name);
}

// Segments are contiguous, each with its variables in declaration order. So a rule sees the trainable part as one
// vector, separate from variables that are not sent. Arena offsets are padded; the wire format is not, because every
// client would send the padding in every round.
StatusOr<ModelLayout> ModelLayout::Create(std::span<const VariableSpec> declaration_order,
                                          const std::optional<Digest>& base) {
  if (declaration_order.size() > kMaxVariables) {
    return InvalidArgument("the model has {} variables, more than {}", declaration_order.size(), kMaxVariables);
  }
  std::unordered_set<std::string_view> names;
  for (const VariableSpec& variable : declaration_order) {
    RIVULET_RETURN_IF_ERROR(CheckVariable(variable));
    if (!names.insert(variable.name).second) {
      return InvalidArgument("two variables are named '{}'; names must be unique in a model file", variable.name);
    }
  }
  ModelLayout layout;
  layout.base_ = base;
  std::vector<size_t> place(declaration_order.size());  // rank of each variable among those in the arena
  size_t placed = 0;
  for (size_t i = 0; i < declaration_order.size(); ++i) {
    place[i] = placed;
    if (declaration_order[i].segment == Segment::kBase) {
      layout.base_variables_.push_back(declaration_order[i]);
    } else {
      ++placed;
    }
  }
  if (base.has_value() == layout.base_variables_.empty()) {
    if (base) return InvalidArgument("the model names the base {} and has no variable of it", base->Hex());
    return InvalidArgument("variable '{}' is of a base, and the model names none", layout.base_variables_[0].name);
  }
  layout.declaration_order_.resize(placed);
  uint64_t offset = 0;
  int64_t delta_offset = 0;
  for (const Segment segment : kSegments) {
    // A delta holds trainable and shared elements contiguously; other segments are not part of it.
    int64_t own_offset = 0;
    int64_t& wire_offset = segment == Segment::kLocal || segment == Segment::kFrozen ? own_offset : delta_offset;
    layout.segment_offset_[static_cast<size_t>(segment)] = offset;
    for (size_t i = 0; i < declaration_order.size(); ++i) {
      const VariableSpec& variable = declaration_order[i];
      if (variable.segment != segment) continue;
      const int64_t elements = variable.spec.shape.elements();
      const uint64_t bytes = static_cast<uint64_t>(elements) * SizeOf(variable.spec.dtype);
      layout.declaration_order_[place[i]] = static_cast<int>(layout.slices_.size());
      layout.slices_.push_back({variable.name, variable.spec, segment, offset, elements, wire_offset});
      wire_offset += elements;
      offset += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      if (offset > kMaxArenaBytes) {
        return InvalidArgument("the model needs more than 2^46 bytes at variable '{}' of shape {}", variable.name,
                               variable.spec.shape.ToString());
      }
      layout.elements_[static_cast<size_t>(segment)] += elements;
    }
    layout.segment_bytes_[static_cast<size_t>(segment)] = offset - layout.segment_offset_[static_cast<size_t>(segment)];
  }
  layout.arena_bytes_ = offset;
  if (layout.elements(Segment::kTrainable) == 0) {
    return InvalidArgument("the model has no trainable variable with elements, so there is nothing to learn");
  }
  return layout;
}

const Slice* ModelLayout::Find(std::string_view name) const {
  for (const Slice& slice : slices_) {
    if (slice.name == name) return &slice;
  }
  return nullptr;
}

// Lengths precede texts, so that different layouts never hash the same bytes.
void HashTensorHeader(std::string_view name, const TensorSpec& spec, Sha256& hash) {
  hash.UpdateU32(static_cast<uint32_t>(name.size())).Update(name);
  const std::string_view dtype = SafetensorsName(spec.dtype);
  hash.UpdateU8(static_cast<uint8_t>(dtype.size())).Update(dtype);
  hash.UpdateU32(static_cast<uint32_t>(spec.shape.rank()));
  for (const int64_t dim : spec.shape.dims()) hash.UpdateU64(static_cast<uint64_t>(dim));
}

// No model without a base starts with these bytes: read as a name's length, they exceed every limit.
void HashBase(const std::optional<Digest>& base, Sha256& hash) {
  if (base) hash.Update("rivulet model over a base\n").Update(base->AsBytes());
}

Digest ModelLayout::digest() const {
  Sha256 hash;
  HashBase(base_, hash);
  for (const int index : declaration_order_) {
    const Slice& slice = slices_[static_cast<size_t>(index)];
    if (slice.segment != Segment::kLocal) HashTensorHeader(slice.name, slice.spec, hash);
  }
  return std::move(hash).Finish();
}

}  // namespace rivulet
