#include "engine/base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace rivulet {
namespace {

// "cpu,cpuacct" names two.
bool Names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == controller) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::vector<ControlGroup> ControlGroupsOf(std::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  return ControlGroupsIn(std::string(std::istreambuf_iterator<char>(file), {}), controller);
}

std::vector<ControlGroup> ControlGroupsIn(std::string_view groups, std::string_view controller) {
  std::vector<ControlGroup> found;
  while (!groups.empty()) {
    const std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(line.size() + 1, groups.size()));
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !Names(controllers, controller)) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller);
    for (std::string group(line.substr(second + 1));; group.resize(group.rfind('/'))) {
      if (group == "/") group.clear();
      found.push_back({root + group, unified});
      if (group.rfind('/') == std::string::npos) break;
    }
  }
  return found;
}

}  // namespace rivulet
