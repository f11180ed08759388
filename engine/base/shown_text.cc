#include "engine/base/shown_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/display_name.h"

namespace rivulet {

std::string OneLine(std::string_view message) {
  std::string line;
  for (const char c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      if (!line.empty() && line.back() != ' ') line += ' ';
    } else {
      line += c;
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return DisplayText(line, line.size());
}

namespace {

// The first `most` characters (code points) of `text`, the last of them "…" where there are more.
std::string CutText(std::string_view text, size_t most) {
  const auto begins = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80; };
  size_t characters = 0, end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!begins(i)) continue;
    if (++characters == most) end = i;
  }
  return characters <= most ? std::string(text) : fmt::format("{}…", text.substr(0, end));
}

constexpr size_t kLongestEcho = 80, kLongestWord = 400, kLongestSentence = 900, kMostLines = 16;

std::string Bounded(const std::string& line) {
  std::string bounded;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view word = std::string_view(line).substr(begin, end - begin);
    bounded += word.size() > kLongestWord ? CutText(word, kLongestEcho) : std::string(word);
    if (end < line.size()) bounded += ' ';
    begin = end + 1;
  }
  return CutText(bounded, kLongestSentence);
}

}  // namespace

std::string Shortened(std::string_view text) { return CutText(text, kLongestEcho); }

std::string ErrorLines(std::string_view message) {
  constexpr std::string_view kIndent = "    ";
  std::string lines = Bounded(OneLine(Sentence(message)));
  message.remove_prefix(Sentence(message).size());
  for (size_t count = 0; !message.empty() && count < kMostLines; ++count) {
    message.remove_prefix(1);
    std::string line(Sentence(message));
    message.remove_prefix(line.size());
    for (char& c : line) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
    line.erase(line.find_last_not_of(' ') + 1);
    line = DisplayText(line, line.size());
    if (!line.empty()) lines += fmt::format("\n{}{}", line.starts_with(kIndent) ? "" : kIndent, line);
  }
  return lines;
}

}  // namespace rivulet
