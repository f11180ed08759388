#include "engine/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

namespace rivulet {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kMetadataKey = "__metadata__";

uint64_t LoadU64(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

// Names in messages come from the file: printable and short.
std::string QuotedName(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 80)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > 80) text += "...";
  return "'" + text + "'";
}

// The entries of the header's outermost object, in order.
using HeaderEntries = std::vector<std::pair<std::string, Json>>;

// Parses the header incrementally. The library's own document would look at every entry again for each that ends (it
// might have been discarded): a header of 100,000 names took 20 seconds. A repeated key, of which a document would keep
// the last, is recorded, and deeper nesting than the format's ends the parse.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderEntries entries;
  std::string duplicate;
  bool too_deep = false;
  std::optional<size_t> broken_at;  // byte of the header; nothing where it is no place that is wrong
  bool broken = false;

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(int64_t value) override { return Value(value); }
  bool number_unsigned(uint64_t value) override { return Value(value); }
  bool number_float(double value, const std::string&) override { return Value(value); }
  bool string(std::string& value) override { return Value(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // no JSON has it
  bool start_object(size_t) override { return Begin(Json::object()); }
  bool start_array(size_t) override { return Begin(Json::array()); }
  bool end_object() override { return End(); }
  bool end_array() override { return End(); }
  bool key(std::string& key) override {
    Open& object = open_.back();
    if (!object.keys.insert(key).second && duplicate.empty()) duplicate = key;
    object.key = std::move(key);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    broken = true;
    if (error.id / 100 == 1) broken_at = position;  // else a number that is too large
    return false;
  }

 private:
  struct Open {
    Json value;  // of the outermost: nothing, its entries go to `entries`
    std::set<std::string> keys = {};
    std::string key = {};
  };

  bool Value(Json value) {
    if (open_.empty()) return true;
    Open& open = open_.back();
    if (open_.size() == 1 && open.value.is_object()) {
      entries.emplace_back(open.key, std::move(value));
    } else if (open.value.is_object()) {
      open.value[open.key] = std::move(value);
    } else {
      open.value.push_back(std::move(value));
    }
    return true;
  }
  bool Begin(Json value) {
    constexpr size_t kMaxDepth = 3;  // {"name": {"shape": [..]}}
    too_deep = open_.size() >= kMaxDepth;
    if (!too_deep) open_.push_back({std::move(value)});
    return !too_deep;
  }
  bool End() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return Value(std::move(value));
  }

  std::vector<Open> open_;
};

StatusOr<HeaderEntries> ParseHeader(std::string_view text) {
  HeaderReader reader;
  Json::sax_parse(text.begin(), text.end(), &reader);
  if (reader.broken_at) return DataLoss("the safetensors header is not JSON (near byte {} of it)", *reader.broken_at);
  if (reader.broken) return DataLoss("the safetensors header is not JSON");
  if (reader.too_deep) return DataLoss("the safetensors header nests deeper than the format does");
  if (!reader.duplicate.empty()) return DataLoss("the safetensors header has {} twice", QuotedName(reader.duplicate));
  return std::move(reader.entries);
}

// A model file comes from anywhere and its tensors are handed out as views. Everything that a view rests on (sizes,
// product of dimensions, offsets) is checked before there is one, and products are formed where they cannot overflow.
StatusOr<SafetensorsPlace> ParseTensor(const std::string& name, const Json& value, uint64_t data_bytes) {
  const auto fail = [&](std::string_view what) { return DataLoss("safetensors tensor {} {}", QuotedName(name), what); };
  if (!value.is_object()) return fail("is not described by a JSON object");
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || shape == value.end() || offsets == value.end() || value.size() != 3)
    return fail("must have dtype, shape and data_offsets, and nothing else");
  if (!dtype->is_string()) return fail("has a dtype that is not a string");
  if (!shape->is_array()) return fail("has a shape that is not a list");
  if (!offsets->is_array() || offsets->size() != 2) return fail("must have two data_offsets");

  SafetensorsPlace placed;
  placed.name = name;
  const auto known = DTypeFromSafetensors(dtype->get_ref<const std::string&>());
  if (!known.ok()) {
    return Unimplemented("safetensors tensor {} has dtype {}, which is not supported; convert it to F32",
                         QuotedName(name), QuotedName(dtype->get_ref<const std::string&>()));
  }
  placed.dtype = *known;
  if (shape->size() > 64) return fail("has more than 64 dimensions");
  std::vector<int64_t> dims;
  for (const Json& dim : *shape) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > (uint64_t{1} << 40))
      return fail("has a dimension that is not an integer from 0 to 2^40");
    dims.push_back(dim.get<int64_t>());
  }
  placed.shape = Shape(std::move(dims));
  const auto elements = placed.shape.CheckedElements();
  if (!elements.ok())
    return fail(fmt::format("has the shape {}: {}", placed.shape.ToString(), Message(elements.status())));

  for (const Json& offset : *offsets) {
    if (!offset.is_number_unsigned()) return fail("has data_offsets that are not non-negative integers");
  }
  placed.begin = (*offsets)[0].get<uint64_t>();
  placed.end = (*offsets)[1].get<uint64_t>();
  if (placed.begin > placed.end)
    return fail(fmt::format("ends at byte {} before it begins at {}", placed.end, placed.begin));
  if (placed.end > data_bytes)
    return fail(
        fmt::format("ends at byte {} of {} bytes of data: the file is truncated or damaged", placed.end, data_bytes));
  const uint64_t bytes = static_cast<uint64_t>(*elements) * SizeOf(*known);
  if (placed.end - placed.begin != bytes) {
    return fail(fmt::format("has {} bytes of data, but {} {} need {}", placed.end - placed.begin, Name(*known),
                            placed.shape.ToString(), bytes));
  }
  return placed;
}

}  // namespace

const SafetensorsEntry* SafetensorsContent::Find(std::string_view name) const {
  const auto found =
      std::ranges::lower_bound(by_name, name, {}, [&](size_t i) { return std::string_view(tensors[i].name); });
  return found == by_name.end() || tensors[*found].name != name ? nullptr : &tensors[*found];
}

StatusOr<uint64_t> SafetensorsHeaderBytes(std::string_view start, uint64_t file_bytes) {
  if (file_bytes < 8 || start.size() < 8)
    return DataLoss("not a safetensors file: {} bytes, fewer than the length field's 8", file_bytes);
  const uint64_t header_bytes = LoadU64(start);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return DataLoss("not a safetensors file: a header of {} bytes, more than the limit of {}", header_bytes,
                    kMaxSafetensorsHeaderBytes);
  }
  if (header_bytes > file_bytes - 8) {
    return DataLoss("the safetensors header has {} bytes, but the file ends after {} of them", header_bytes,
                    file_bytes - 8);
  }
  return header_bytes;
}

StatusOr<SafetensorsLayout> ParseSafetensorsHeader(std::string_view text, uint64_t data_bytes) {
  if (text.empty() || text[0] != '{') return DataLoss("not a safetensors file: its header does not begin with '{{'");
  RIVULET_ASSIGN_OR_RETURN(const HeaderEntries header, ParseHeader(text));
  SafetensorsLayout content;
  std::vector<SafetensorsPlace>& placed = content.tensors;
  for (const auto& [name, value] : header) {
    if (name == kMetadataKey) {
      if (!value.is_object()) return DataLoss("the safetensors header's __metadata__ is not a JSON object");
      for (const auto& [key, text_value] : value.items()) {
        if (!text_value.is_string()) return DataLoss("the safetensors metadata {} is not a string", QuotedName(key));
        content.metadata[key] = text_value.get<std::string>();
      }
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(SafetensorsPlace tensor, ParseTensor(name, value, data_bytes));
    placed.push_back(std::move(tensor));
  }
  // The format forbids gaps and overlaps. So a file's meaning is independent of the header's order, and other content
  // cannot be hidden in it.
  std::stable_sort(placed.begin(), placed.end(), [](const SafetensorsPlace& a, const SafetensorsPlace& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t next = 0;
  std::string_view before = "the header";
  for (const SafetensorsPlace& tensor : placed) {
    if (tensor.begin < next)
      return DataLoss("safetensors tensors {} and {} overlap at byte {} of the data", QuotedName(before),
                      QuotedName(tensor.name), tensor.begin);
    if (tensor.begin > next)
      return DataLoss("safetensors data have a hole of {} bytes before tensor {}", tensor.begin - next,
                      QuotedName(tensor.name));
    next = tensor.end;
    before = tensor.name;
  }
  if (next != data_bytes) {
    return DataLoss("{} bytes follow the last safetensors tensor, which ends at byte {} of the data", data_bytes - next,
                    next);
  }
  return content;
}

StatusOr<SafetensorsContent> ParseSafetensors(std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const uint64_t header_bytes, SafetensorsHeaderBytes(bytes, bytes.size()));
  const std::string_view data = bytes.substr(8 + header_bytes);
  RIVULET_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                           ParseSafetensorsHeader(bytes.substr(8, header_bytes), data.size()));
  SafetensorsContent content;
  content.metadata = std::move(layout.metadata);
  content.tensors.reserve(layout.tensors.size());
  for (SafetensorsPlace& tensor : layout.tensors) {
    content.tensors.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                               std::as_bytes(std::span(data.data() + tensor.begin, tensor.end - tensor.begin))});
  }
  content.by_name.resize(content.tensors.size());
  std::iota(content.by_name.begin(), content.by_name.end(), size_t{0});
  std::ranges::sort(content.by_name, {}, [&](size_t i) { return std::string_view(content.tensors[i].name); });
  return content;
}

StatusOr<std::string> SafetensorsHeader(std::span<const SafetensorsEntry> tensors,
                                        const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsPlace> places;
  places.reserve(tensors.size());
  for (const SafetensorsEntry& tensor : tensors)
    places.push_back({tensor.name, tensor.dtype, tensor.shape, 0, tensor.data.size()});
  return SafetensorsHeaderOf(places, metadata);
}

StatusOr<std::string> SafetensorsHeaderOf(std::span<const SafetensorsPlace> tensors,
                                          const std::map<std::string, std::string>& metadata) {
  // In the order of the tensors, and appended without a search: the names are known to differ.
  using Ordered = nlohmann::ordered_json;
  Ordered header = Ordered::object();
  auto& entries = header.get_ref<Ordered::object_t&>();
  if (!metadata.empty()) {
    Ordered texts = Ordered::object();
    for (const auto& [key, value] : metadata) texts[key] = value;
    entries.emplace_back(std::string(kMetadataKey), std::move(texts));
  }
  std::set<std::string_view> names = {kMetadataKey};
  uint64_t offset = 0;
  for (const SafetensorsPlace& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      return InvalidArgument("safetensors tensor {}: the name is taken; names must differ", QuotedName(tensor.name));
    const std::string_view dtype = SafetensorsName(tensor.dtype);
    if (dtype.empty())
      return InvalidArgument("safetensors tensor {}: the format has no dtype {}", QuotedName(tensor.name),
                             Name(tensor.dtype));
    const auto elements = tensor.shape.CheckedElements();
    if (!elements.ok())
      return Annotate(elements.status(), fmt::format("safetensors tensor {}", QuotedName(tensor.name)));
    const uint64_t bytes = static_cast<uint64_t>(*elements) * SizeOf(tensor.dtype);
    if (bytes != tensor.end - tensor.begin) {
      return InvalidArgument("safetensors tensor {}: {} bytes of data, but {} {} need {}", QuotedName(tensor.name),
                             tensor.end - tensor.begin, Name(tensor.dtype), tensor.shape.ToString(), bytes);
    }
    Ordered entry = Ordered::object();
    entry["dtype"] = std::string(dtype);
    entry["shape"] = std::vector<int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end());
    entry["data_offsets"] = {offset, offset + bytes};
    entries.emplace_back(tensor.name, std::move(entry));
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Ordered::exception&) {
    return InvalidArgument("a safetensors name or metadata text is not UTF-8");
  }
  // Spaces, which JSON ignores, so that tensors begin at a multiple of 64 bytes and can be used where the file is
  // mapped.
  text.append((64 - (text.size() + 8) % 64) % 64, ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    return InvalidArgument("a safetensors header of {} bytes is beyond the format's limit of {}", text.size(),
                           kMaxSafetensorsHeaderBytes);
  }
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(text.size() >> (8 * i));
  return file + text;
}

StatusOr<std::string> SerializeSafetensors(std::span<const SafetensorsEntry> tensors,
                                           const std::map<std::string, std::string>& metadata) {
  RIVULET_ASSIGN_OR_RETURN(std::string file, SafetensorsHeader(tensors, metadata));
  size_t bytes = file.size();
  for (const SafetensorsEntry& tensor : tensors) bytes += tensor.data.size();
  file.reserve(bytes);
  for (const SafetensorsEntry& tensor : tensors)
    file.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return file;
}

}  // namespace rivulet
