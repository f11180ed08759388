#pragma once

#include <string>

#include "tests/testing/forwarding_file_system.h"

namespace rivulet::testing {

// A disk on which only the first checkpoints of a process appear, as if it had died some steps later.
class DyingFileSystem : public ForwardingFileSystem {
 public:
  explicit DyingFileSystem(int checkpoints) : left_(checkpoints) {}
  Status Rename(const std::string& from, const std::string& to) override {
    ++asked;
    return left_-- > 0 ? base_.Rename(from, to) : absl::ResourceExhaustedError("no space left on the device");
  }
  int asked = 0;

 private:
  int left_;
};

}  // namespace rivulet::testing
