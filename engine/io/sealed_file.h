// A private file (mode 0600) that is whole or is not there: some pieces one behind the other, then the CRC-32C of them
// all, little-endian. What a process keeps for the one after it.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// Temporary file, sync, rename, sync of the folder, which is made (mode 0700) where it is not there: after OK the bytes
// survive a crash, after an error the old file is unchanged and no temporary is left. Pieces are not joined in memory.
Status WriteSealedFile(FileSystem& fs, const std::string& path, std::span<const std::string_view> pieces);
inline Status WriteSealedFile(FileSystem& fs, const std::string& path, std::initializer_list<std::string_view> pieces) {
  return WriteSealedFile(fs, path, std::span(pieces.begin(), pieces.size()));
}

// The pieces, joined. NOT_FOUND: there is none. DATA_LOSS: it is damaged.
StatusOr<std::string> ReadSealedFile(FileSystem& fs, const std::string& path);

}  // namespace rivulet
