// Download of a file over HTTP or HTTPS, in pieces if necessary.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

// Whether this program was built with libcurl's header.
bool DownloadIsBuilt();

// Brings `path` to `bytes` bytes by what `url` has: the rest of them where `path` has some already and the server can
// begin in the middle, else all. A connection that breaks off is made again as long as each brings something; what has
// come stays in `path` after an error. HTTPS stays HTTPS when it is sent elsewhere, and certificates are checked
// against the system's, or those that SSL_CERT_FILE names.
//
// UNAVAILABLE: no server, no network, or it broke off too often. NOT_FOUND: the server has no such file.
// DATA_LOSS: it sends more or fewer bytes, and `path` is gone. FAILED_PRECONDITION: this machine has no libcurl.
// UNIMPLEMENTED: it was built without. Otherwise `progress`' error, or the disk's.
Status Download(const std::string& url, const std::string& path, int64_t bytes, const DataProgress& progress);

}  // namespace rivulet
