// Findings of a preflight check, each with its remedy.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/base/table.h"

namespace rivulet {

class Findings {
 public:
  void Good(std::string what, std::string text);
  // Nothing is wrong yet.
  void Soon(std::string what, std::string text);
  // `status` says what is wrong and, as errors here do, what to do; `mend` is added where it cannot know.
  void Wrong(std::string what, const Status& status, std::string mend = "");

  // On stdout, a line or an object each. FAILED_PRECONDITION: something is wrong; how many of how many.
  Status Print(bool json) const;

 private:
  void Add(std::string what, std::string verdict, std::string text);
  Table table_{{{.name = "verdict"}, {.name = "check"}, {.name = "finding"}}};
  int wrong_ = 0;
};

// Whether `folder`, or what it will be made in, can be written to and has `least` bytes free. `otherwise` is the mend
// beside making room or giving rights.
void LookAtDisk(const std::string& folder, int64_t least, const std::string& otherwise, Findings& findings);

}  // namespace rivulet
