// A private file (mode 0600) that is complete or absent: concatenated pieces, then the CRC-32C of all of them,
// little-endian. Processes keep state for their successor in such files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// What a file is to survive: the end of the process that wrote it, or a power failure too, for which its writer waits
// until the disk has it.
enum class Survives : uint8_t { kProcess, kPowerFailure };

// Temporary file, sync, rename, sync of the folder, which is made (mode 0700) where it is not there; no syncs for what
// is to survive the process alone. After OK the bytes survive, after an error the old file is unchanged and no
// temporary is left. Pieces are not joined in memory.
Status WriteSealedFile(FileSystem& fs, const std::string& path, std::span<const std::string_view> pieces,
                       Survives survives = Survives::kPowerFailure);
inline Status WriteSealedFile(FileSystem& fs, const std::string& path, std::initializer_list<std::string_view> pieces,
                              Survives survives = Survives::kPowerFailure) {
  return WriteSealedFile(fs, path, std::span(pieces.begin(), pieces.size()), survives);
}

// The pieces, joined. NOT_FOUND: there is none. DATA_LOSS: it is damaged.
StatusOr<std::string> ReadSealedFile(FileSystem& fs, const std::string& path);

}  // namespace rivulet
