// A private file (mode 0600) that is complete or absent: concatenated pieces, then the CRC-32C of all of them,
// little-endian. A process uses such files to keep state for its successor.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// The failures that a file survives: the end of the process that wrote it, or also a power failure, for which the
// writer waits for the disk.
enum class Survives : uint8_t { kProcess, kPowerFailure };

// Writes a temporary file, syncs, renames and syncs the folder, which is created with mode 0700 if missing; there are
// no syncs for kProcess. After OK the bytes survive. After an error the old file is unchanged and no temporary file is
// left. Pieces are not joined in memory.
Status WriteSealedFile(FileSystem& fs, const std::string& path, std::span<const std::string_view> pieces,
                       Survives survives = Survives::kPowerFailure);
inline Status WriteSealedFile(FileSystem& fs, const std::string& path, std::initializer_list<std::string_view> pieces,
                              Survives survives = Survives::kPowerFailure) {
  return WriteSealedFile(fs, path, std::span(pieces.begin(), pieces.size()), survives);
}

// Returns the joined pieces. NOT_FOUND: no such file. DATA_LOSS: it is damaged.
StatusOr<std::string> ReadSealedFile(FileSystem& fs, const std::string& path);

}  // namespace rivulet
