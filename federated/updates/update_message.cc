#include "federated/updates/update_message.h"

#include <cstring>

#include "engine/base/display_name.h"

namespace rivulet {
namespace {

constexpr size_t kMaxParts = 16, kMaxMessageScalars = 10000;

// Protobuf's wire types.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr uint32_t Tag(uint32_t field, uint32_t type) { return field << 3 | type; }

Status Malformed(std::string_view what) { return InvalidArgument("this is no Update message: {}", what); }

// Names appear in messages about refused updates, in rows and on others' terminals.
Status CheckName(std::string_view whose, std::string_view name) {
  const Status shows = CheckDisplayName(whose, name);
  return shows.ok() ? shows : Malformed(Message(shows));
}

// A custom parser: the delta is most of the message, and Protobuf's parser would copy it. Here parts are views of the
// staged bytes and are aggregated in place.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }

  StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return Malformed("it ends inside a number");
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return Malformed("a number has more than 64 bits");
  }

  StatusOr<std::string_view> Take(uint64_t count) {
    if (count > bytes_.size()) return Malformed(fmt::format("a field of {} bytes has {} left", count, bytes_.size()));
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  StatusOr<std::string_view> Bytes() {
    RIVULET_ASSIGN_OR_RETURN(const uint64_t count, Varint());
    return Take(count);
  }

  // Skips unknown fields, so that later clients may send more.
  Status Skip(uint64_t tag) {
    switch (tag & 7) {
      case kVarint:
        return Varint().status();
      case kFixed64:
        return Take(8).status();
      case kBytes:
        return Bytes().status();
      case kFixed32:
        return Take(4).status();
      default:
        return Malformed(fmt::format("wire type {}", tag & 7));
    }
  }

 private:
  std::string_view bytes_;
};

StatusOr<PartView> ParsePart(std::string_view bytes) {
  WireReader reader(bytes);
  PartView part;
  while (!reader.done()) {
    RIVULET_ASSIGN_OR_RETURN(const uint64_t tag, reader.Varint());
    if (tag == Tag(1, kBytes)) {
      RIVULET_ASSIGN_OR_RETURN(part.name, reader.Bytes());
    } else if (tag == Tag(3, kBytes)) {
      RIVULET_ASSIGN_OR_RETURN(const std::string_view data, reader.Bytes());
      part.data = std::as_bytes(std::span(data.data(), data.size()));
    } else {
      RIVULET_RETURN_IF_ERROR(reader.Skip(tag));
    }
  }
  RIVULET_RETURN_IF_ERROR(CheckName("a part's name", part.name));
  return part;
}

Status ParseScalar(std::string_view bytes, Scalars& scalars) {
  WireReader reader(bytes);
  std::string_view name;
  double value = 0;
  while (!reader.done()) {
    RIVULET_ASSIGN_OR_RETURN(const uint64_t tag, reader.Varint());
    if (tag == Tag(1, kBytes)) {
      RIVULET_ASSIGN_OR_RETURN(name, reader.Bytes());
    } else if (tag == Tag(2, kFixed64)) {
      RIVULET_ASSIGN_OR_RETURN(const std::string_view data, reader.Take(8));
      std::memcpy(&value, data.data(), 8);
    } else {
      RIVULET_RETURN_IF_ERROR(reader.Skip(tag));
    }
  }
  RIVULET_RETURN_IF_ERROR(CheckName("a scalar's name", name));
  if (scalars.size() == kMaxMessageScalars) return Malformed(fmt::format("more than {} scalars", kMaxMessageScalars));
  if (!scalars.emplace(name, value).second) return Malformed(fmt::format("the scalar '{}' is there twice", name));
  return absl::OkStatus();
}

}  // namespace

StatusOr<UpdateMessage> ParseUpdate(std::string_view bytes) {
  WireReader reader(bytes);
  UpdateMessage update;
  while (!reader.done()) {
    RIVULET_ASSIGN_OR_RETURN(const uint64_t tag, reader.Varint());
    if (tag == Tag(2, kBytes)) {
      if (update.parts.size() == kMaxParts) return Malformed(fmt::format("more than {} parts", kMaxParts));
      RIVULET_ASSIGN_OR_RETURN(const std::string_view field, reader.Bytes());
      RIVULET_ASSIGN_OR_RETURN(const PartView part, ParsePart(field));
      for (const PartView& earlier : update.parts) {
        if (earlier.name == part.name) return Malformed(fmt::format("the part '{}' is there twice", part.name));
      }
      update.parts.push_back(part);
    } else if (tag == Tag(3, kBytes)) {
      RIVULET_ASSIGN_OR_RETURN(const std::string_view field, reader.Bytes());
      RIVULET_RETURN_IF_ERROR(ParseScalar(field, update.scalars));
    } else {
      RIVULET_RETURN_IF_ERROR(reader.Skip(tag));
    }
  }
  return update;
}

}  // namespace rivulet
