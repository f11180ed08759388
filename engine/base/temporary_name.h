// Names of files that are being written: "PATH.tmp-" and 16 random hexadecimal digits, beside the file that they
// become. A process that ends in between leaves such a file behind. Who removes what is left goes by the whole name,
// and never by a part of it: anything else in a folder is somebody's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"

namespace rivulet {

// Another one at each call.
std::string TemporaryNameOf(std::string_view path);

// "index.txt" of "index.txt.tmp-0123456789abcdef"; nullopt: no name that TemporaryNameOf makes.
std::optional<std::string_view> TargetOfTemporary(std::string_view name);
// The same, or `name` itself.
inline std::string_view WithoutTemporary(std::string_view name) { return TargetOfTemporary(name).value_or(name); }

// Removes what is left in `folder` of files that were to be named as `ours` says. Plain files alone: no folder and no
// link is one that a program of ours was writing. What cannot be removed stays.
void RemoveTemporaries(FileSystem& fs, const std::string& folder,
                       const std::function<bool(std::string_view target)>& ours);

}  // namespace rivulet
