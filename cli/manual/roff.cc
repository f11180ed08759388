#include "cli/manual/roff.h"

namespace rivulet {

std::string Roff(std::string_view text) {
  std::string roff;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else {
      roff += c;
    }
    begins = c == '\n';
  }
  return roff;
}

}  // namespace rivulet
