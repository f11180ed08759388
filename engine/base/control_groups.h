// The control groups (cgroups, versions 1 and 2) that limit this process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

struct ControlGroup {
  std::string folder;    // "/sys/fs/cgroup/a/b"
  bool unified = false;  // of version 2
};

// The group that `controller` ("memory", "cpu") has this process in, and every group above it, which limits too. Empty
// where the system tells of none.
std::vector<ControlGroup> ControlGroupsOf(std::string_view controller);
// The same where `groups` has the lines of /proc/self/cgroup: "0::/a/b" in version 2, "4:memory:/a/b" in version 1.
std::vector<ControlGroup> ControlGroupsIn(std::string_view groups, std::string_view controller);

}  // namespace rivulet
