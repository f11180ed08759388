#include "setup/class_names.h"

#include "engine/base/file_system.h"
#include "engine/datasets/class_names.h"

namespace rivulet {

std::vector<std::string> ClassNamesOf(const Scenario& scenario, const std::string& records) {
  if (scenario.model.target != "class" || scenario.data.label_feature != "label") return {};
  for (const std::string& place : {records, scenario.data.test, scenario.data.train}) {
    std::vector<std::string> names = ClassNamesBeside(FileSystem::Default(), place);
    if (!names.empty()) return names;
  }
  return {};
}

}  // namespace rivulet
