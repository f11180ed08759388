#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/shown_text.h"
#include "engine/base/table.h"

namespace rivulet {

namespace {
ProgressStyle progress_style = ProgressStyle::kText;
}  // namespace

void SetProgressStyle(ProgressStyle style) { progress_style = style; }
ProgressStyle CurrentProgressStyle() { return progress_style; }

void PrintNote(const std::string& sentence, Note note, const std::string& who) {
  if (progress_style == ProgressStyle::kQuiet && note == Note::kProgress) return;
  std::string line;
  if (progress_style == ProgressStyle::kJson) {
    Fields fields = {{"progress", std::string("note")}, {"sentence", sentence}};
    if (!who.empty()) fields.emplace_back("name", who);
    line = JsonObject(fields);
  } else {
    line = OneLine(who.empty() ? sentence : fmt::format("{}: {}", who, sentence));  // it may quote a peer
  }
  line += '\n';  // in one write: lines of several threads stay whole
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool StderrIsTerminal() {
  if (progress_style != ProgressStyle::kText) return false;
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

size_t TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
  return std::max<size_t>(size.ws_col, 2) - 1;
}

size_t ResultColumns() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    if (const int given = std::atoi(columns); given > 0) return static_cast<size_t>(given);
  }
  return 100;
}

std::string Emphasised(Emphasis emphasis, std::string_view text) {
  static const bool colour = [] {
    const char *term = std::getenv("TERM"), *none = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
    return isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb" &&
           (none == nullptr || *none == '\0');
  }();
  if (!colour) return std::string(text);
  constexpr const char* kCodes[] = {"1", "32", "31", "2"};
  return "\033[" + std::string(kCodes[static_cast<size_t>(emphasis)]) + "m" + std::string(text) + "\033[0m";
}

}  // namespace rivulet
