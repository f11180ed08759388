// Names of a data set's classes, stored by an import beside the records.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_system.h"

namespace rivulet {

// Returns the class names for `records`, a TFRecord file or a pattern: the lines of classes.txt in its folder, or else
// the classes of columns.json there, by label. Empty if neither has names; classes are then shown by their numbers.
std::vector<std::string> ClassNamesBeside(FileSystem& files, const std::string& records);

}  // namespace rivulet
