#include "engine/data/example.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "engine/base/check.h"
#include "engine/data/dataset.h"

namespace rivulet {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  uint32_t type = 0;
  uint64_t varint = 0;     // for kVarint
  std::string_view bytes;  // for kLength, kFixed32, kFixed64
};

// Reader of the fields of one message. It never reads beyond the message, for any bytes. A custom parser, because an
// Example has a map of features, and Protobuf's parser would copy an image to read its label. Views into the record
// cost nothing. It accepts everything that Protobuf accepts, including groups, so that files readable elsewhere are
// readable here.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : p_(message.data()), end_(p_ + message.size()) {}

  bool AtEnd() const { return p_ == end_; }

  // For one or two bytes, the usual case in an Example; longer ones are handled separately, so that this is inlined.
  bool Varint(uint64_t& value) {
    if (p_ == end_) return false;
    const uint64_t first = static_cast<uint8_t>(p_[0]);
    if (first < 0x80) {
      value = first;
      ++p_;
      return true;
    }
    if (end_ - p_ > 1 && static_cast<uint8_t>(p_[1]) < 0x80) {
      value = (first & 0x7F) | uint64_t{static_cast<uint8_t>(p_[1])} << 7;
      p_ += 2;
      return true;
    }
    const LongVarint read = ReadVarint(p_, end_);
    value = read.value;
    p_ = read.next == nullptr ? p_ : read.next;
    return read.next != nullptr;
  }

  // False: malformed. Groups are skipped and returned as kGroup without content.
  bool Next(Field& field, int depth = 0) {
    uint64_t tag;
    if (!Varint(tag) || tag > 0xFFFFFFFFu || (tag >> 3) == 0) return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<uint32_t>(tag & 7);
    if (field.type == kLength) {
      uint64_t length;
      return Varint(length) && Take(length, field.bytes);
    }
    WireReader rest = *this;  // a copy, so that this reader can stay in registers
    const bool well_formed = rest.OtherContent(field, depth);
    p_ = rest.p_;
    return well_formed;
  }

 private:
  bool Take(uint64_t bytes, std::string_view& out) {
    if (bytes > static_cast<uint64_t>(end_ - p_)) return false;
    out = {p_, static_cast<size_t>(bytes)};
    p_ += bytes;
    return true;
  }

  struct LongVarint {
    const char* next;  // null: malformed
    uint64_t value;
  };
  __attribute__((noinline)) static LongVarint ReadVarint(const char* p, const char* end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (p == end) return {nullptr, 0};
      const auto byte = static_cast<uint8_t>(*p++);
      // Ten bytes hold 70 bits; those beyond 64 are dropped, as in Protobuf.
      value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return {p, value};
    }
    return {nullptr, 0};
  }

  __attribute__((noinline)) bool OtherContent(Field& field, int depth) {
    switch (field.type) {
      case kVarint:
        return Varint(field.varint);
      case kFixed64:
        return Take(8, field.bytes);
      case kFixed32:
        return Take(4, field.bytes);
      case kGroup: {
        constexpr int kMaxDepth = 100;  // as in Protobuf
        if (depth >= kMaxDepth) return false;
        const uint32_t number = field.number;
        for (;;) {
          Field inner;
          if (!Next(inner, depth + 1)) return false;
          if (inner.type == kEndGroup) {
            field = {number, kGroup, 0, {}};
            return inner.number == number;
          }
        }
      }
      case kEndGroup:
        return depth > 0;
      default:
        return false;
    }
  }

  const char* p_;
  const char* end_;
};

// Calls visit(bytes) for every length-delimited field `number`; false if the message is malformed or visit fails.
template <typename Visit>
bool ForEachMessage(std::string_view message, uint32_t number, const Visit& visit) {
  WireReader reader(message);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return false;
    if (field.number == number && field.type == kLength && !visit(field.bytes)) return false;
  }
  return true;
}

// Calls visit(entry) for every map entry of the Example.
template <typename Visit>
bool ForEachEntry(std::string_view example, const Visit& visit) {
  return ForEachMessage(example, 1, [&](std::string_view features) { return ForEachMessage(features, 1, visit); });
}

// The last one counts, if a message has a field twice.
bool EntryKey(std::string_view entry, std::string_view& key) {
  key = {};
  return ForEachMessage(entry, 1, [&](std::string_view bytes) {
    key = bytes;
    return true;
  });
}

Status Malformed() { return InvalidArgument("the record is not a well-formed tf.train.Example"); }

// Calls visit(bits of the value, in the list's encoding) over a float or int64 list; false if malformed.
template <typename Visit>
bool ForEachFixed32(std::string_view list, const Visit& visit) {
  WireReader reader(list);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return false;
    if (field.number != 1) continue;
    if (field.type == kFixed32) {
      visit(field.bytes);
    } else if (field.type == kLength) {
      if (field.bytes.size() % 4 != 0) return false;
      visit(field.bytes);
    }
  }
  return true;
}

template <typename Visit>
bool ForEachVarint(std::string_view list, const Visit& visit) {
  WireReader reader(list);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return false;
    if (field.number != 1) continue;
    if (field.type == kVarint) {
      visit(field.varint);
    } else if (field.type == kLength) {
      WireReader packed(field.bytes);
      uint64_t value;
      while (!packed.AtEnd()) {
        if (!packed.Varint(value)) return false;
        visit(value);
      }
    }
  }
  return true;
}

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void PutMessage(uint32_t number, std::string_view bytes, std::string& out) {
  PutVarint((number << 3) | kLength, out);
  PutVarint(bytes.size(), out);
  out += bytes;
}

std::string Message(uint32_t number, std::string_view bytes) {
  std::string out;
  PutMessage(number, bytes, out);
  return out;
}

// Names come from the file; messages must be one printable line.
std::string PrintableFeature(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 60)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > 60) text += "...";
  return text;
}

}  // namespace

std::string_view Name(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kNone:
      return "none";
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float";
    case FeatureKind::kInt64:
      return "int64";
  }
  return "none";
}

class FeatureParser {
 public:
  // Parses the value of one map entry. False: malformed. In a oneof the last kind counts, and lists of that kind are
  // joined, as Protobuf merges them.
  static bool ParseEntry(std::string_view entry, FeatureView& view) {
    view = FeatureView();
    const bool well_formed = ForEachMessage(entry, 2, [&](std::string_view feature) {
      WireReader reader(feature);
      Field field;
      while (!reader.AtEnd()) {
        if (!reader.Next(field)) return false;
        if (field.number < 1 || field.number > 3 || field.type != kLength) continue;
        const auto kind = static_cast<FeatureKind>(field.number);
        if (view.kind_ == kind) {
          view.more_lists_.push_back(field.bytes);
        } else {
          view.kind_ = kind;
          view.list_ = field.bytes;
          view.more_lists_.clear();
        }
      }
      return true;
    });
    return well_formed && Count(view);
  }

  template <typename Visit>
  static bool ForEachList(const FeatureView& view, const Visit& visit) {
    if (!visit(view.list_)) return false;
    return std::all_of(view.more_lists_.begin(), view.more_lists_.end(), visit);
  }

 private:
  // Counting visits every value once and so also verifies that
  // the lists are well formed: later copies need no check.
  static bool Count(FeatureView& view) {
    return ForEachList(view, [&](std::string_view list) {
      switch (view.kind_) {
        case FeatureKind::kNone:
          return true;
        case FeatureKind::kBytes:
          return ForEachMessage(list, 1, [&](std::string_view) { return ++view.count_ > 0; });
        case FeatureKind::kFloat:
          return ForEachFixed32(list,
                                [&](std::string_view bytes) { view.count_ += static_cast<int64_t>(bytes.size() / 4); });
        case FeatureKind::kInt64:
          return ForEachVarint(list, [&](uint64_t) { ++view.count_; });
      }
      return false;
    });
  }
};

void FeatureView::ForEachBytes(const std::function<void(std::string_view)>& visit) const {
  FeatureParser::ForEachList(*this, [&](std::string_view list) {
    return ForEachMessage(list, 1, [&](std::string_view value) {
      visit(value);
      return true;
    });
  });
}

std::string_view FeatureView::FirstBytes() const {
  std::string_view first;
  bool found = false;
  FeatureParser::ForEachList(*this, [&](std::string_view list) {
    return ForEachMessage(list, 1, [&](std::string_view value) {
      if (!found) first = value;
      return found = true;
    });
  });
  return first;
}

int64_t FeatureView::FirstInt64() const {
  int64_t first = 0;
  bool found = false;
  FeatureParser::ForEachList(*this, [&](std::string_view list) {
    return ForEachVarint(list, [&](uint64_t value) {
      if (!found) first = static_cast<int64_t>(value);
      found = true;
    });
  });
  return first;
}

void FeatureView::CopyFloats(std::span<float> values) const {
  RIVULET_CHECK(kind_ == FeatureKind::kFloat && static_cast<int64_t>(values.size()) == count_);
  static_assert(std::endian::native == std::endian::little, "floats are copied as they are in the message");
  size_t filled = 0;
  FeatureParser::ForEachList(*this, [&](std::string_view list) {
    return ForEachFixed32(list, [&](std::string_view bytes) {
      if (!bytes.empty()) std::memcpy(values.data() + filled, bytes.data(), bytes.size());
      filled += bytes.size() / 4;
    });
  });
}

void FeatureView::CopyInt64s(std::span<int64_t> values) const {
  RIVULET_CHECK(kind_ == FeatureKind::kInt64 && static_cast<int64_t>(values.size()) == count_);
  size_t filled = 0;
  FeatureParser::ForEachList(*this, [&](std::string_view list) {
    return ForEachVarint(list, [&](uint64_t value) { values[filled++] = static_cast<int64_t>(value); });
  });
}

StatusOr<std::vector<std::pair<std::string_view, FeatureView>>> ParseExample(std::string_view example) {
  std::map<std::string_view, FeatureView> features;
  const bool well_formed = ForEachEntry(example, [&](std::string_view entry) {
    std::string_view key;
    return EntryKey(entry, key) && FeatureParser::ParseEntry(entry, features[key]);
  });
  if (!well_formed) return Malformed();
  return std::vector<std::pair<std::string_view, FeatureView>>(features.begin(), features.end());
}

PayloadKind ClassifyPayload(std::string_view payload) {
  bool has_lists = false;
  WireReader reader(payload);
  Field field;
  // Stricter than Protobuf, which skips unknown fields: an Example's messages have only these fields.
  const auto only = [](std::string_view message, uint32_t last, const auto& visit) {
    WireReader inner(message);
    Field inner_field;
    while (!inner.AtEnd()) {
      if (!inner.Next(inner_field) || inner_field.number > last || inner_field.type != kLength) return false;
      if (!visit(inner_field)) return false;
    }
    return true;
  };
  const auto feature = [&](std::string_view message) { return only(message, 3, [](const Field&) { return true; }); };
  while (!reader.AtEnd()) {
    if (!reader.Next(field) || field.type != kLength || field.number > 2) return PayloadKind::kOther;
    const bool lists = field.number == 2;
    has_lists |= lists;
    const bool well_formed = only(field.bytes, 1, [&](const Field& entry) {
      return only(entry.bytes, 2, [&](const Field& part) {
        if (part.number == 1) return true;
        if (!lists) return feature(part.bytes);
        return only(part.bytes, 1, [&](const Field& step) { return feature(step.bytes); });
      });
    });
    if (!well_formed) return PayloadKind::kOther;
  }
  if (has_lists) return PayloadKind::kSequenceExample;
  return ParseExample(payload).ok() ? PayloadKind::kExample : PayloadKind::kOther;
}

namespace {

// The feature `name`, of `kind` and with `count` values.
Status FindFeature(std::string_view example, std::string_view name, FeatureKind kind, int64_t count,
                   FeatureView& view) {
  std::string_view found;
  bool present = false;
  // Visits all entries, because of two entries with one name the last counts.
  const bool well_formed = ForEachEntry(example, [&](std::string_view entry) {
    std::string_view key;
    if (!EntryKey(entry, key)) return false;
    if (key == name) {
      found = entry;
      present = true;
    }
    return true;
  });
  if (!well_formed) return Malformed();
  if (!present) {
    std::string names;
    int64_t others = 0;
    if (const auto features = ParseExample(example); features.ok()) {
      for (const auto& [other, unused] : *features) {
        if (++others <= 12) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", PrintableFeature(other));
      }
      if (others > 12) names += fmt::format(" and {} more", others - 12);
    }
    return InvalidArgument("the record has no feature '{}'; it has {}", PrintableFeature(name),
                           names.empty() ? "none" : names);
  }
  if (!FeatureParser::ParseEntry(found, view)) return Malformed();
  if (view.kind() != kind) {
    if (view.kind() == FeatureKind::kNone) {
      return InvalidArgument("feature '{}' is empty; {} wanted", PrintableFeature(name), Name(kind));
    }
    return InvalidArgument("feature '{}' is {}, but {} is wanted", PrintableFeature(name), Name(view.kind()),
                           Name(kind));
  }
  if (view.count() != count) {
    return InvalidArgument("feature '{}' has {} {} values, but {} wanted", PrintableFeature(name), view.count(),
                           Name(kind), count == 1 ? "1 is" : fmt::format("{} are", count));
  }
  return absl::OkStatus();
}

}  // namespace

Status FindBytesFeature(std::string_view example, std::string_view name, std::string_view* value) {
  FeatureView view;
  RIVULET_RETURN_IF_ERROR(FindFeature(example, name, FeatureKind::kBytes, 1, view));
  *value = view.FirstBytes();
  return absl::OkStatus();
}

Status FindInt64Feature(std::string_view example, std::string_view name, int64_t* value) {
  FeatureView view;
  RIVULET_RETURN_IF_ERROR(FindFeature(example, name, FeatureKind::kInt64, 1, view));
  *value = view.FirstInt64();
  return absl::OkStatus();
}

Status FindInt64Features(std::string_view example, std::string_view name, std::span<int64_t> values) {
  FeatureView view;
  RIVULET_RETURN_IF_ERROR(FindFeature(example, name, FeatureKind::kInt64, static_cast<int64_t>(values.size()), view));
  view.CopyInt64s(values);
  return absl::OkStatus();
}

Status FindFloatFeature(std::string_view example, std::string_view name, std::span<float> values) {
  FeatureView view;
  RIVULET_RETURN_IF_ERROR(FindFeature(example, name, FeatureKind::kFloat, static_cast<int64_t>(values.size()), view));
  view.CopyFloats(values);
  return absl::OkStatus();
}

void ExampleBuilder::Add(std::string_view name, std::string feature) {
  const auto place = std::lower_bound(features_.begin(), features_.end(), name,
                                      [](const auto& entry, std::string_view key) { return entry.first < key; });
  RIVULET_CHECK(place == features_.end() || place->first != name, "feature '{}' twice", name);
  features_.emplace(place, name, std::move(feature));
}

ExampleBuilder& ExampleBuilder::Bytes(std::string_view name, std::string_view value) {
  Add(name, Message(1, Message(1, value)));
  return *this;
}

ExampleBuilder& ExampleBuilder::Int64(std::string_view name, int64_t value) { return Int64s(name, {&value, 1}); }

ExampleBuilder& ExampleBuilder::Int64s(std::string_view name, std::span<const int64_t> values) {
  std::string packed;
  for (const int64_t value : values) PutVarint(static_cast<uint64_t>(value), packed);
  Add(name, Message(3, Message(1, packed)));
  return *this;
}

ExampleBuilder& ExampleBuilder::Floats(std::string_view name, std::span<const float> values) {
  Add(name, Message(2, Message(1, {reinterpret_cast<const char*>(values.data()), values.size_bytes()})));
  return *this;
}

// Lists that Protobuf would merge become one, with their values in order.
ExampleBuilder& ExampleBuilder::Copy(std::string_view name, const FeatureView& feature) {
  std::string list(feature.list_);
  for (const std::string_view more : feature.more_lists_) list += more;
  const int field = feature.kind_ == FeatureKind::kBytes ? 1 : feature.kind_ == FeatureKind::kFloat ? 2 : 3;
  Add(name, feature.kind_ == FeatureKind::kNone ? "" : Message(field, list));
  return *this;
}

std::string ExampleBuilder::Serialize() const {
  std::string features;
  for (const auto& [name, feature] : features_) {
    std::string entry = Message(1, name);
    PutMessage(2, feature, entry);
    PutMessage(1, entry, features);
  }
  return Message(1, features);
}

}  // namespace rivulet
