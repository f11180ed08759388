#include "http/target.h"

#include <algorithm>

namespace rivulet {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string Unescaped(std::string_view text, bool plus_is_blank) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1, low = high < 0 ? -1 : HexDigit(text[i + 2]);
    if (text[i] == '%' && low >= 0) {
      bytes += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      bytes += plus_is_blank && text[i] == '+' ? ' ' : text[i];
    }
  }
  return bytes;
}

}  // namespace

HttpTarget TargetOf(std::string_view text) {
  text = text.substr(0, text.find('#'));
  const size_t question = std::min(text.find('?'), text.size());
  HttpTarget target{.path = Unescaped(text.substr(0, question), false), .parameters = {}};
  for (size_t at = question + 1; at < text.size();) {
    const size_t end = std::min(text.find('&', at), text.size());
    const std::string_view pair = text.substr(at, end - at);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (!pair.empty()) {
      target.parameters.emplace(Unescaped(pair.substr(0, equals), true),
                                equals < pair.size() ? Unescaped(pair.substr(equals + 1), true) : "");
    }
    at = end + 1;
  }
  return target;
}

}  // namespace rivulet
