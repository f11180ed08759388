// Names of the files that belong to a client or a run.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/sha256.h"

namespace rivulet {

// This many hexadecimal digits of the digest: a client's name may be no file name, but distinct names differ here.
inline constexpr size_t kFileNameDigits = 24;
inline std::string FileNameOf(std::string_view id) { return Sha256Of(id).Hex().substr(0, kFileNameDigits); }

}  // namespace rivulet
