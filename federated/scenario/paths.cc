#include "federated/scenario/paths.h"

#include "federated/scenario/keys.h"

namespace rivulet {

void ForEachPath(Scenario& scenario, const std::function<void(std::string_view key, std::string& path)>& visit) {
  for (const scenario::Key& key : scenario::Keys()) {
    key.ForEachPath(scenario, [&](std::string& path) { visit(key.name(), path); });
  }
}

}  // namespace rivulet
