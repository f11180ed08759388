// Names of a data set's classes, stored by an import beside the records.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_system.h"

namespace rivulet {

// Of `records`, a TFRecord file or a pattern: the lines of classes.txt in its folder, or the classes of columns.json
// there, by label. Empty: neither file is there, or it holds no names; classes are then called by their numbers.
std::vector<std::string> ClassNamesBeside(FileSystem& files, const std::string& records);

}  // namespace rivulet
