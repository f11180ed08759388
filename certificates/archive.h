// Archive of a folder of small files: POSIX.1-1988's "ustar" (IEEE 1003.1), compressed by gzip (RFC 1952).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "certificates/private_files.h"
#include "engine/base/status.h"

namespace rivulet {

// The folder `top` with the files in it, readable by the owner alone: modes 0700 and 0600, 0700 for executables. The
// same files and `seconds` give the same bytes. INVALID_ARGUMENT: `top` has more than 155 bytes or a name more than
// 100, which are the format's limits.
StatusOr<std::string> TarGz(std::string_view top, const std::vector<DeliveredFile>& files, int64_t seconds);

}  // namespace rivulet
