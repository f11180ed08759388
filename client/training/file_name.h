// Names of the files that belong to a client or a run.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/sha256.h"

namespace rivulet {

// 24 hexadecimal digits of the digest: a client may be named as no file can, and two names differ in them.
inline std::string FileNameOf(std::string_view id) { return Sha256Of(id).Hex().substr(0, 24); }

}  // namespace rivulet
