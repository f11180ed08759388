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
  // Adds a warning: nothing is wrong yet.
  void Soon(std::string what, std::string text);
  // Adds a fault: `status` has the failure and usually the remedy; `mend` adds a remedy that it cannot contain.
  void Wrong(std::string what, const Status& status, std::string mend = "");

  // Prints all findings on stdout, a line or an object each. FAILED_PRECONDITION: how many of how many checks failed.
  Status Print(bool json) const;

 private:
  void Add(std::string what, std::string verdict, std::string text);
  Table table_{{{.name = "verdict"}, {.name = "check"}, {.name = "finding"}}};
  int wrong_ = 0;
};

// Checks that `folder`, or its future parent, is writable and has `least` bytes free. `otherwise` is the remedy besides
// free space and rights.
void LookAtDisk(const std::string& folder, int64_t least, const std::string& otherwise, Findings& findings);

}  // namespace rivulet
