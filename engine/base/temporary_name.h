// Names of files that are being written: "PATH.tmp-" and 16 random hexadecimal digits, in the folder of the final file.
// A process that ends early leaves such a file behind. Cleanup matches the whole name, never a part of it, since other
// files in the folder may belong to the user.
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
