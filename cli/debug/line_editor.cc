#include "cli/debug/line_editor.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#ifdef RIVULET_LIBEDIT
#include <editline/readline.h>
#endif

namespace rivulet {

#ifdef RIVULET_LIBEDIT
namespace {

// The library's callbacks have no context argument.
const CompleteFn* completer = nullptr;
std::vector<std::string> candidates;

char* NextCandidate(const char* word, int state) {
  static size_t next = 0;
  if (state == 0) {
    next = 0;
    candidates = (*completer)(rl_line_buffer, word);
  }
  return next < candidates.size() ? strdup(candidates[next++].c_str()) : nullptr;
}

char** Complete(const char* word, int, int) {
  rl_attempted_completion_over = 1;  // file names are no candidates
  return rl_completion_matches(word, NextCandidate);
}

}  // namespace

std::optional<std::string> ReadLine(const std::string& prompt, const CompleteFn& complete) {
  static std::string last;
  static char breaks[] = " \t;[";
  completer = &complete;
  rl_attempted_completion_function = Complete;
  rl_completer_word_break_characters = breaks;
  std::fflush(stdout);
  char* const line = readline(prompt.c_str());
  if (line == nullptr) return std::nullopt;
  std::string text = line;
  std::free(line);
  if (!text.empty() && text != last) add_history(text.c_str());
  last = text;
  return text;
}
#else
std::optional<std::string> ReadLine(const std::string& prompt, const CompleteFn&) {
  std::fputs(prompt.c_str(), stdout);
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}
#endif

}  // namespace rivulet
