#include "engine/base/display_name.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/display_lines.h"

namespace rivulet {
namespace {

constexpr size_t kMostBytes = 255;

// The character at `i` and its length in bytes; 0 bytes where there is none.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};
Character Decode(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(i);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return {};
  uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i + k) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

bool Hidden(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) ||                              // control
         code == 0x2028 || code == 0x2029 ||                                          // line, paragraph
         code == 0x061C || code == 0x200E || code == 0x200F ||                        // direction marks
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||  // embeddings, isolates
         code == 0xFEFF;                                                              // no width at all
}

}  // namespace

Status CheckDisplayName(std::string_view what, std::string_view name) {
  if (name.empty()) return InvalidArgument("{} must not be empty", what);
  if (name.size() > kMostBytes)
    return InvalidArgument("{} has {} bytes; at most {} are allowed", what, name.size(), kMostBytes);
  for (size_t i = 0; i < name.size();) {
    const Character character = Decode(name, i);
    if (character.bytes == 0) return InvalidArgument("{} has bytes that are not UTF-8 at byte {}", what, i);
    if (Hidden(character.code))
      return InvalidArgument("{} has the character U+{:04X} at byte {}, which does not show; leave it out", what,
                             character.code, i);
    i += character.bytes;
  }
  return absl::OkStatus();
}

std::string DisplayText(std::string_view text, size_t most) {
  std::string shown;
  for (size_t i = 0; i < text.size();) {
    const Character character = Decode(text, i);
    const bool shows = character.bytes > 0 && !Hidden(character.code);
    const std::string_view next = shows ? text.substr(i, character.bytes) : "?";
    if (shown.size() + next.size() > most) return shown + "…";
    shown += next;
    i += std::max<size_t>(character.bytes, 1);
  }
  return shown;
}

std::string DisplayLines(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size();) {
    const Character character = Decode(text, i);
    if (character.bytes == 0) {
      shown += '?';
    } else if (Hidden(character.code) && character.code != '\n' && character.code != '\t' &&
               text.substr(i, 2) != "\r\n") {
      shown += fmt::format("\\u{:04X}", character.code);
    } else {
      shown += text.substr(i, character.bytes);
    }
    i += std::max<size_t>(character.bytes, 1);
  }
  return shown;
}

}  // namespace rivulet
