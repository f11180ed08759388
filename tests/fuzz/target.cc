#include "tests/fuzz/target.h"

#include <google/protobuf/stubs/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/check.h"

namespace rivulet::fuzz {
namespace {

std::vector<Target>& Registry() {
  // As in the program (cli/main.cc).
  static std::vector<Target> targets = [] {
    google::protobuf::SetLogHandler(nullptr);
    return std::vector<Target>();
  }();
  return targets;
}

}  // namespace

Registered::Registered(Target target) {
  std::vector<Target>& targets = Registry();
  const auto place = std::ranges::upper_bound(targets, target.name, {}, &Target::name);
  targets.insert(place, std::move(target));
}

const std::vector<Target>& Targets() { return Registry(); }

std::string FileOf(std::string_view bytes) {
  static const int file = memfd_create("fuzz", 0);
  RIVULET_CHECK(file >= 0 && ftruncate(file, 0) == 0, "no file in memory");
  RIVULET_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "no room");
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace rivulet::fuzz
