#include "coordinator/history/immutable_file.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cctype>

namespace rivulet {

bool MustBeImmutable(sqlite3* db, const std::string& path) {
  const int code = sqlite3_exec(db, "PRAGMA schema_version", nullptr, nullptr, nullptr) & 0xFF;
  struct stat log;
  return (code == SQLITE_READONLY || code == SQLITE_CANTOPEN) &&
         (stat((path + "-wal").c_str(), &log) != 0 || log.st_size == 0);
}

std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

}  // namespace rivulet
